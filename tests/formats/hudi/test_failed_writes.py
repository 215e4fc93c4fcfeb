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
from lakehand.formats.hudi.snapshot import CLEAN, ROLLBACK_FAILED_WRITES
from lakehand.spi import Failure, Finding, Scheduling, Skip, TableProcess
from tests.formats.hudi.runtime import EVENTS_V9, FILE_LOCK, NOON, MemoryRuntime, copied, operation, timeline

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


def test_a_write_without_a_heartbeat_is_dead_and_a_plan_never_is(table: Path) -> None:
    assert wants(table) == Skip(reason="pending writes: 0"), "the pending clustering plan is none"
    begin(table)
    begin(table, OTHER, minutes=20, heartbeat=11)
    assert dead(table) == [WRITE, OTHER]
    assert EVENTS_V9 not in dead(table)
    assert wants(table).reason == (
        f"2 of 2 pending writes are dead after 10 min without a heartbeat: {WRITE} (no sign of life for 60 min), "
        f"{OTHER} (no sign of life for 11 min)"
    )


@pytest.mark.parametrize(("begun", "heartbeat"), [(60, 3.0), (60, 0.1), (9, None), (9, 60.0)])
def test_a_write_with_a_sign_of_life_is_left_alone_and_looked_at_when_it_could_be_dead(
    begun: float, heartbeat: float | None, table: Path
) -> None:
    begin(table, minutes=begun, heartbeat=heartbeat)
    newest = min(begun, heartbeat if heartbeat is not None else begun)
    left = timedelta(minutes=10 - newest, seconds=1)
    waiting = "pending writes: 1, each with a sign of life within 10 min"
    found = wants(table)
    assert isinstance(found, Skip)
    assert found.reason == waiting
    assert found.look_again is not None
    assert abs(found.look_again - left) < timedelta(seconds=1)


def test_the_tables_own_heartbeats_can_only_make_it_later(table: Path) -> None:
    begin(table, heartbeat=5)
    quick = {**LAZY, "hudi.rollback-failed-writes.min-age": "1s", "hoodie.client.heartbeat.interval_in_ms": "1000"}
    assert dead(table, properties=quick) == [WRITE]
    assert "dead after 2 min" in wants(table, properties=quick).reason, "the floor"
    slow = {**LAZY, "hoodie.client.heartbeat.interval_in_ms": "3600000"}
    assert "within 2 h" in wants(table, properties=slow).reason


def test_only_tables_whose_writers_use_lazy_are_served(table: Path) -> None:
    begin(table)
    eager = {key: value for key, value in LAZY.items() if "failed" not in key}
    advice = "set hoodie.clean.failed.writes.policy=LAZY in the table's properties"
    assert advice in wants(table, properties=eager).reason
    asked = operation(
        TableProcess(action=ROLLBACK_FAILED_WRITES, parameters={"mode": "plan-and-execute"}), origin="api"
    )
    refused = HudiProcessFactory().admit(runtime(table, properties=eager), asked)
    assert isinstance(refused, Failure)
    assert advice in refused.message
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


def test_a_request_can_wait_longer_and_its_next_attempt_does_too(table: Path) -> None:
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
    assert refused.message == "pending writes: 1, each with a sign of life within 2 h"


def test_service_scheduling_and_a_shared_lock_are_needed(table: Path) -> None:
    begin(table)
    assert "is left to the writer: set scheduling = service" in wants(table, scheduling=Scheduling.WRITER).reason
    unlocked = {key: value for key, value in LAZY.items() if key not in FILE_LOCK}
    assert "is not done beside the writer: no lock is configured" in wants(table, properties=unlocked).reason


def test_a_rollback_that_was_begun_and_died_is_completed(table: Path) -> None:
    """The write itself may be gone from the timeline by then."""
    begun = timeline(table) / "20261115113000000.rollback.requested"
    write_avro(begun, ROLLBACK_PLAN, {"instantToRollback": {"commitTime": WRITE, "action": "commit"}})
    set_age(begun, 30)
    assert dead(table) == [WRITE]
    set_age(begun, 3)
    assert "each with a sign of life" in wants(table).reason
    write_avro(begun, ROLLBACK_PLAN, {"instantToRollback": {"commitTime": EVENTS_V9, "action": "clustering"}})
    set_age(begun, 30)
    assert wants(table) == Skip(reason="pending writes: 0"), "the rollback of a plan is its runner's"


def verdict(path: Path, process: TableProcess, **result: Any) -> tuple[Finding, str]:
    found = HudiProcessFactory().verify(runtime(path), process, result)
    return found.finding, found.reason


def test_a_completed_rollback_must_name_the_write(table: Path) -> None:
    begin(table)
    process = wants(table)
    assert isinstance(process, TableProcess)
    assert verdict(table, process) == (Finding.NOT_DONE, f"write {WRITE} is still pending")
    begun = timeline(table) / "20261115115900000.rollback.requested"
    write_avro(begun, ROLLBACK_PLAN, {"instantToRollback": {"commitTime": WRITE, "action": "commit"}})
    unfinished = f"the rollback 20261115115900000 of write {WRITE} is not completed"
    assert verdict(table, process) == (Finding.NOT_DONE, unfinished)
    for file in timeline(table).glob(f"{WRITE}*"):
        file.unlink()
    assert verdict(table, process) == (Finding.NOT_DONE, unfinished)
    done = timeline(table) / "20261115115900000_20261115115901000.rollback"
    write_avro(done, ROLLBACK_DONE, {"commitsRollback": [WRITE], "totalFilesDeleted": 3})
    assert verdict(table, process) == (
        Finding.DONE, f"1 of 1 dead writes were rolled back, and 3 files deleted: {WRITE} ({done.name})",
    )  # fmt: skip


def test_a_write_that_was_completed_or_vanished_is_no_work_of_ours(table: Path) -> None:
    begin(table)
    process = wants(table)
    assert isinstance(process, TableProcess)
    (timeline(table) / f"{WRITE}_20261115115900000.commit").touch()
    assert verdict(table, process) == (Finding.GONE, f"write {WRITE} was completed by its writer after all")
    for file in timeline(table).glob(f"{WRITE}*"):
        file.unlink()
    gone = f"write {WRITE} is gone from the timeline, and no completed rollback names it"
    assert verdict(table, process) == (Finding.GONE, gone)
