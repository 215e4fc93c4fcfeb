# SPDX-License-Identifier: Apache-2.0
"""While a plan's heartbeat is fresh nobody starts it; afterwards it is free."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import COMPACTION
from lakehand.spi import Operation, Scheduling, Skip, Status, TableProcess
from tests.formats.hudi.runtime import NOON, ORDERS_V9, MemoryRuntime, asked_for, copied, ended, timeline
from tests.kit.sentences import Sentences

QUICK = {"hoodie.client.heartbeat.interval_in_ms": "5000"}


def admitted(
    table: Path,
    *,
    scheduling: Scheduling = Scheduling.WRITER,
    operations: Sequence[Operation] = (),
    run_times: int = 0,
    properties: Mapping[str, str] | None = None,
) -> object:
    factory = HudiProcessFactory()
    factory.open({})
    runtime = MemoryRuntime(table, scheduling=scheduling, properties=properties, operations=operations)
    return factory.admit(runtime, replace(asked_for(COMPACTION, ORDERS_V9), run_times=run_times))


def write_heartbeat(table: Path, *, seconds_ago: float, name: str = ORDERS_V9) -> None:
    file = table / ".hoodie" / ".heartbeat" / name
    file.parent.mkdir(exist_ok=True)
    file.touch()
    at = (NOON - timedelta(seconds=seconds_ago)).timestamp()
    os.utime(file, (at, at))


def test_a_plan_with_a_fresh_heartbeat_waits_until_hudi_takes_its_runner_for_dead(
    tmp_path: Path, sentences: Sentences
) -> None:
    table = copied("orders_v9", tmp_path)
    write_heartbeat(table, seconds_ago=100)
    answer = admitted(table)
    assert isinstance(answer, Skip)
    sentences.check("the plan has a fresh heartbeat", answer.reason, left="20 s")
    assert answer.look_again == timedelta(seconds=21)


def test_an_old_heartbeat_and_one_of_another_plan_do_not_block(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    write_heartbeat(table, seconds_ago=121)
    write_heartbeat(table, seconds_ago=1, name="20261115000000000")
    assert isinstance(admitted(table), TableProcess)


def test_the_table_may_set_the_heartbeat_interval(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    write_heartbeat(table, seconds_ago=11)
    answer = admitted(table, properties=QUICK)
    assert isinstance(answer, TableProcess)
    options = answer.parameters["options"]
    assert isinstance(options, dict)
    assert options["hoodie.client.heartbeat.interval_in_ms"] == "5000"


def begin(table: Path, *, seconds_ago: float) -> None:
    """What somebody leaves who begins a plan; before Hudi 1.2, or without a lock, that is all."""
    file = timeline(table) / f"{ORDERS_V9}.compaction.inflight"
    file.touch()
    at = (NOON - timedelta(seconds=seconds_ago)).timestamp()
    os.utime(file, (at, at))


@pytest.mark.parametrize("scheduling", list(Scheduling))
def test_a_plan_that_somebody_else_has_begun_without_heartbeats_is_not_rolled_back_under_them(
    scheduling: Scheduling, tmp_path: Path, sentences: Sentences
) -> None:
    table = copied("orders_v9", tmp_path)
    begin(table, seconds_ago=30)
    answer = admitted(table, scheduling=scheduling)
    assert isinstance(answer, Skip)
    sentences.check("somebody else has begun the plan", answer.reason, left="2:00:00", plan=ORDERS_V9)
    assert answer.look_again == timedelta(minutes=1)


def test_a_plan_that_was_begun_hours_ago_counts_as_abandoned(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    begin(table, seconds_ago=7201)
    assert isinstance(admitted(table), TableProcess)


def test_a_runner_with_an_old_heartbeat_is_dead_however_young_its_start(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    begin(table, seconds_ago=130)
    write_heartbeat(table, seconds_ago=121)
    assert isinstance(admitted(table), TableProcess)


def test_what_an_operation_of_ours_has_begun_is_ours_to_run_again(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    begin(table, seconds_ago=60)
    before = ended(COMPACTION, ORDERS_V9, Status.CANCELED, run_times=1, created_at=NOON - timedelta(minutes=2))
    after = ended(COMPACTION, ORDERS_V9, Status.CANCELED, run_times=1, created_at=NOON + timedelta(minutes=2))
    assert isinstance(admitted(table, run_times=1), TableProcess)
    assert isinstance(admitted(table, operations=(before,)), TableProcess)
    assert isinstance(admitted(table, operations=(after,)), Skip)
