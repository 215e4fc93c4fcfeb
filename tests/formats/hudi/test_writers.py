# SPDX-License-Identifier: Apache-2.0
"""While a plan's heartbeat is fresh nobody starts it; afterwards it is free."""

import os
from datetime import timedelta
from pathlib import Path

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import COMPACTION
from lakehand.spi import Skip, TableProcess
from tests.formats.hudi.runtime import NOON, ORDERS_V9, MemoryRuntime, asked_for, copied
from tests.kit.sentences import Sentences

QUICK = {"hoodie.client.heartbeat.interval_in_ms": "5000"}


def admitted(table: Path, **properties: str) -> object:
    factory = HudiProcessFactory()
    factory.open({})
    return factory.admit(MemoryRuntime(table, properties=properties), asked_for(COMPACTION, ORDERS_V9))


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
    answer = admitted(table, **QUICK)
    assert isinstance(answer, TableProcess)
    options = answer.parameters["options"]
    assert isinstance(options, dict)
    assert options["hoodie.client.heartbeat.interval_in_ms"] == "5000"
