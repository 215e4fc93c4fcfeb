# SPDX-License-Identifier: Apache-2.0
"""Which pending writes count as dead, and what the timeline says about their rollback."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.rollback_failed_writes import ROLLBACK_FAILED_WRITES
from lakehand.formats.hudi.snapshot import CLEAN
from lakehand.spi import Failure, Finding, Scheduling, Skip, TableProcess, Verdict
from tests.formats.hudi.runtime import EVENTS_V9, FILE_LOCK, NOON, MemoryRuntime, copied, operation, timeline
from tests.kit.sentences import Sentences

LAZY = {**FILE_LOCK, "hoodie.clean.failed.writes.policy": "LAZY"}
WRITE, OTHER = "20261115110000000", "20261115110100000"
RECORD = {"type": "record", "name": "R"}
INSTANT_INFO = {
    **RECORD,
    "name": "I",
    "fields": [{"name": name, "type": "string"} for name in ("commitTime", "action")],
}
ROLLBACK_PLAN = {**RECORD, "fields": [{"name": "instantToRollback", "type": INSTANT_INFO}]}
ROLLBACK_DONE = {
    **RECORD,
    "fields": [
        {"name": "commitsRollback", "type": {"type": "array", "items": "string"}},
        {"name": "totalFilesDeleted", "type": "int"},
    ],
}


def write_avro(file: Path, schema: dict[str, Any], record: dict[str, Any]) -> None:
    with file.open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema(schema), [record])


def begin(path: Path, instant: str = WRITE, *, minutes: float = 60, heartbeat: float | None = None) -> None:
    """A write that took its last step, and sent its last heartbeat, so many minutes ago."""
    for name in (f"{instant}.commit.requested", f"{instant}.inflight"):
        set_age(timeline(path) / name, minutes)
    if heartbeat is not None:
        (path / ".hoodie" / ".heartbeat").mkdir(exist_ok=True)
        set_age(path / ".hoodie" / ".heartbeat" / instant, heartbeat)


def set_age(file: Path, minutes: float) -> None:
    file.touch()
    then = (NOON - timedelta(minutes=minutes)).timestamp()
    os.utime(file, (then, then))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return copied("events_v9", tmp_path)


def runtime(path: Path, **changes: Any) -> MemoryRuntime:
    return MemoryRuntime(path, **{"scheduling": Scheduling.SERVICE, "properties": LAZY, **changes})


def wants(path: Path, **changes: Any) -> TableProcess | Skip:
    return HudiProcessFactory().trigger(runtime(path, **changes), ROLLBACK_FAILED_WRITES)


def dead(path: Path, **changes: Any) -> Any:
    found = wants(path, **changes)
    assert isinstance(found, TableProcess), found
    return found.parameters["instants"]


def test_a_write_without_a_heartbeat_is_dead_and_a_plan_never_is(table: Path, sentences: Sentences) -> None:
    idle = wants(table)
    assert isinstance(idle, Skip)
    assert idle.look_again is None
    sentences.check("no pending writes", idle.reason)  # the pending clustering plan is none
    begin(table)
    begin(table, OTHER, minutes=20, heartbeat=11)
    assert dead(table) == [WRITE, OTHER]
    assert EVENTS_V9 not in dead(table)
    found = {"dead": 2, "pending": 2, "after": "10 min", "write": WRITE, "age": "60 min"}
    sentences.check("two writes are dead", wants(table).reason, **found, other=OTHER, other_age="11 min")


@pytest.mark.parametrize(("begun", "heartbeat"), [(60, 3.0), (60, 0.1), (9, None), (9, 60.0)])
def test_a_write_with_a_sign_of_life_is_left_alone_and_looked_at_when_it_could_be_dead(
    begun: float, heartbeat: float | None, table: Path, sentences: Sentences
) -> None:
    begin(table, minutes=begun, heartbeat=heartbeat)
    newest = min(begun, heartbeat if heartbeat is not None else begun)
    left = timedelta(minutes=10 - newest, seconds=1)
    found = wants(table)
    assert isinstance(found, Skip)
    sentences.check("pending writes are alive", found.reason, pending=1, within="10 min")
    assert found.look_again is not None
    assert abs(found.look_again - left) < timedelta(seconds=1)


def test_the_tables_own_heartbeats_can_only_make_it_later(table: Path, sentences: Sentences) -> None:
    begin(table, heartbeat=5)
    quick = {**LAZY, "hudi.rollback-failed-writes.min-age": "1s", "hoodie.client.heartbeat.interval_in_ms": "1000"}
    assert dead(table, properties=quick) == [WRITE]
    floor = {"dead": 1, "pending": 1, "after": "2 min", "write": WRITE, "age": "5 min"}
    sentences.check("one write is dead", wants(table, properties=quick).reason, **floor)
    slow = {**LAZY, "hoodie.client.heartbeat.interval_in_ms": "3600000"}
    sentences.check("pending writes are alive", wants(table, properties=slow).reason, pending=1, within="2 h")


def test_only_tables_whose_writers_use_lazy_are_served(table: Path, sentences: Sentences) -> None:
    begin(table)
    eager = {key: value for key, value in LAZY.items() if "failed" not in key}
    advice = "hoodie.clean.failed.writes.policy=LAZY"
    sentences.check("the table's policy is not lazy", wants(table, properties=eager).reason, advice=advice)
    asked = operation(
        TableProcess(action=ROLLBACK_FAILED_WRITES, parameters={"mode": "plan-and-execute"}), origin="api"
    )
    refused = HudiProcessFactory().admit(runtime(table, properties=eager), asked)
    assert isinstance(refused, Failure)
    sentences.check("the table's policy is not lazy", refused.message, advice=advice)
    old = {**eager, "hoodie.cleaner.policy.failed.writes": "lazy"}
    assert dead(table, properties=old) == [WRITE], "Hudi 0.15 calls it so"


@pytest.mark.parametrize(("policy", "passed_on"), [("LAZY", "LAZY"), ("EAGER", "NEVER"), ("", "NEVER")])
def test_a_clean_rolls_back_failed_writes_under_the_same_condition(policy: str, passed_on: str, table: Path) -> None:
    cleaning = operation(TableProcess(action=CLEAN, parameters={"mode": "plan-and-execute"}), origin="api")
    properties = {**FILE_LOCK, "hoodie.cleaner.policy.failed.writes": policy}
    admitted = HudiProcessFactory().admit(runtime(table, properties=properties, actions=frozenset({CLEAN})), cleaning)
    assert isinstance(admitted, TableProcess), admitted
    options: Any = admitted.parameters["options"]
    assert options["hoodie.clean.failed.writes.policy"] == passed_on


def test_a_request_can_wait_longer_and_its_next_attempt_does_too(table: Path, sentences: Sentences) -> None:
    begin(table)
    parameters: dict[str, Any] = {"mode": "plan-and-execute", "options": {"min-age": "50m"}}
    asked = operation(TableProcess(action=ROLLBACK_FAILED_WRITES, parameters=parameters), origin="api")
    first = HudiProcessFactory().admit(runtime(table), asked)
    assert isinstance(first, TableProcess)
    assert first.parameters["dead_after_seconds"] == 3000
    again = HudiProcessFactory().admit(runtime(table), replace(asked, process=first, run_times=1))
    assert isinstance(again, TableProcess)
    assert again.parameters["dead_after_seconds"] == 3000
    refused = HudiProcessFactory().admit(
        runtime(table),
        replace(asked, process=replace(asked.process, parameters={**parameters, "options": {"min-age": "2h"}})),
    )
    assert isinstance(refused, Failure)
    sentences.check("pending writes are alive", refused.message, pending=1, within="2 h")


def test_service_scheduling_and_a_shared_lock_are_needed(table: Path, sentences: Sentences) -> None:
    begin(table)
    left = wants(table, scheduling=Scheduling.WRITER).reason
    sentences.check("the action is left to the writer", left, action=ROLLBACK_FAILED_WRITES)
    unlocked = {key: value for key, value in LAZY.items() if key not in FILE_LOCK}
    found = {"action": ROLLBACK_FAILED_WRITES, "key": "hoodie.write.lock.provider"}
    sentences.check("not done without a lock", wants(table, properties=unlocked).reason, **found)


def test_a_rollback_that_was_begun_and_died_is_completed(table: Path, sentences: Sentences) -> None:
    """The write itself may be gone from the timeline by then."""
    begun = timeline(table) / "20261115113000000.rollback.requested"
    write_avro(begun, ROLLBACK_PLAN, {"instantToRollback": {"commitTime": WRITE, "action": "commit"}})
    set_age(begun, 30)
    assert dead(table) == [WRITE]
    set_age(begun, 3)
    sentences.check("pending writes are alive", wants(table).reason, pending=1, within="10 min")
    write_avro(begun, ROLLBACK_PLAN, {"instantToRollback": {"commitTime": EVENTS_V9, "action": "clustering"}})
    set_age(begun, 30)
    sentences.check("no pending writes", wants(table).reason)  # the rollback of a plan is its runner's


def verdict(path: Path, process: TableProcess) -> Verdict:
    return HudiProcessFactory().verify(runtime(path), process, {})


def test_a_completed_rollback_must_name_the_write(table: Path, sentences: Sentences) -> None:
    begin(table)
    process = wants(table)
    assert isinstance(process, TableProcess)
    pending = verdict(table, process)
    assert pending.finding is Finding.NOT_DONE
    sentences.check("the write is still pending", pending.reason, write=WRITE)
    begun = timeline(table) / "20261115115900000.rollback.requested"
    write_avro(begun, ROLLBACK_PLAN, {"instantToRollback": {"commitTime": WRITE, "action": "commit"}})
    unfinished = verdict(table, process)
    assert unfinished.finding is Finding.NOT_DONE
    sentences.check("the rollback is not completed", unfinished.reason, rollback="20261115115900000", write=WRITE)
    for file in timeline(table).glob(f"{WRITE}*"):
        file.unlink()
    assert verdict(table, process) == unfinished
    done = timeline(table) / "20261115115900000_20261115115901000.rollback"
    write_avro(done, ROLLBACK_DONE, {"commitsRollback": [WRITE], "totalFilesDeleted": 3})
    rolled_back = verdict(table, process)
    assert rolled_back.finding is Finding.DONE
    found = {"rolled_back": 1, "dead": 1, "files": 3, "write": WRITE, "rollback": done.name}
    sentences.check("dead writes were rolled back", rolled_back.reason, **found)


def test_a_write_that_was_completed_or_vanished_is_no_work_of_ours(table: Path, sentences: Sentences) -> None:
    begin(table)
    process = wants(table)
    assert isinstance(process, TableProcess)
    (timeline(table) / f"{WRITE}_20261115115900000.commit").touch()
    completed = verdict(table, process)
    assert completed.finding is Finding.GONE
    sentences.check("the write was completed", completed.reason, write=WRITE)
    for file in timeline(table).glob(f"{WRITE}*"):
        file.unlink()
    gone = verdict(table, process)
    assert gone.finding is Finding.GONE
    sentences.check("the write is gone", gone.reason, write=WRITE)
