# SPDX-License-Identifier: Apache-2.0
"""The writer wins: the options of a clustering, plans that were rolled back, and the pauses after lost ones."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import CLUSTERING, COMPACTION
from lakehand.spi import Drop, Finding, Operation, Scheduling, Skip, Status, TableProcess
from tests.formats.hudi.runtime import (
    EVENTS_V6,
    EVENTS_V9,
    FILE_LOCK,
    NOON,
    ORDERS_V9,
    TABLES,
    MemoryRuntime,
    asked_for,
    copied,
    operation,
    remove,
    timeline,
)
from tests.kit.sentences import Sentences

PLANNING = TableProcess(action=CLUSTERING, parameters={"mode": "plan-and-execute"})
EAGER = {**FILE_LOCK, "hudi.clustering.commits": "1"}
PREFER = "hoodie.write.lock.conflict.resolution.strategy"
UPDATES = "hoodie.clustering.updates.strategy"
PENDING_WRITES = "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution"


def leave_rollback(table: Path, instant: str) -> str:
    """What a writer leaves that rolls a plan back."""
    schema = {
        "type": "record",
        "name": "HoodieRollbackMetadata",
        "fields": [{"name": "commitsRollback", "type": {"type": "array", "items": "string"}}],
    }
    is_old = timeline(table).name == ".hoodie"
    name = "20991115120000000.rollback" if is_old else "20991115120000000_20991115120001000.rollback"
    with (timeline(table) / name).open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"commitsRollback": [instant]}])
    return name


def options(table: Path, wanted: Operation, **runtime: Any) -> dict[str, str]:
    found = HudiProcessFactory().admit(MemoryRuntime(table, **runtime), wanted)
    assert isinstance(found, TableProcess), found
    given = found.parameters["options"]
    assert isinstance(given, dict)
    return given


@pytest.mark.parametrize("lock", [FILE_LOCK, {}])
def test_a_clustering_gives_way_to_writers_at_its_commit_and_a_compaction_need_not(lock: dict[str, str]) -> None:
    clustering = options(TABLES / "events_v9", asked_for(CLUSTERING, EVENTS_V9), properties=lock)
    compaction = options(TABLES / "orders_v9", asked_for(COMPACTION, ORDERS_V9), properties=lock)

    assert clustering[PREFER].endswith(".PreferWriterConflictResolutionStrategy")
    assert clustering[PENDING_WRITES] == "true"
    assert PREFER not in compaction


def test_neither_a_property_nor_a_request_can_let_updates_into_files_under_clustering() -> None:
    allow = {UPDATES: "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"}

    found = options(TABLES / "events_v9", asked_for(CLUSTERING, EVENTS_V9, options=allow), properties=allow)

    assert UPDATES not in found


@pytest.mark.parametrize(("name", "instant"), [("events_v9", EVENTS_V9), ("events_v6", EVENTS_V6)])
def test_a_plan_that_a_writer_rolled_back_is_dropped_with_that_reason(
    name: str, instant: str, tmp_path: Path, sentences: Sentences
) -> None:
    table = copied(name, tmp_path)
    remove(table, EVENTS_V9 if name == "events_v9" else EVENTS_V6)
    rollback = leave_rollback(table, instant)
    wanted = asked_for(CLUSTERING, EVENTS_V9 if name == "events_v9" else EVENTS_V6)
    ran = TableProcess(action=CLUSTERING, instant=wanted.instant, parameters={"mode": "execute"})

    before = HudiProcessFactory().admit(MemoryRuntime(table), wanted)
    after = HudiProcessFactory().verify(MemoryRuntime(table), ran, {"causes": ["java.io.FileNotFoundException"]})

    assert isinstance(before, Drop)
    assert after.finding is Finding.GONE
    found = {"plan": instant, "rollback": rollback}
    sentences.check("the plan was rolled back", before.reason, **found)
    sentences.check("the plan was rolled back by someone else", after.reason, **found)


def test_a_plan_that_lost_is_gone_even_when_we_planned_it(tmp_path: Path) -> None:
    table = copied("events_v9", tmp_path)
    why = "it met a writer, and was rolled back"
    lost: dict[str, Any] = {"instants": [], "lost": {EVENTS_V9: why}}
    pending = HudiProcessFactory().verify(MemoryRuntime(table), PLANNING, lost)
    remove(table, EVENTS_V9)
    gone = HudiProcessFactory().verify(MemoryRuntime(table), PLANNING, lost)

    assert pending.finding is Finding.NOT_DONE
    assert (gone.finding, gone.reason) == (Finding.GONE, why)


def lost_ago(seconds: float, id: int) -> Operation:
    ended = NOON - timedelta(seconds=seconds)
    result = {"instants": [], "lost": {"20261115110000000": "it met a writer"}}
    return operation(PLANNING, status=Status.DROPPED, result=result, finished_at=ended, id=id)


def decided(table: Path, *operations: Operation) -> TableProcess | Skip:
    runtime = MemoryRuntime(table, scheduling=Scheduling.SERVICE, properties=EAGER, operations=operations)
    return HudiProcessFactory().trigger(runtime, CLUSTERING)


def test_after_each_lost_clustering_the_next_one_waits_longer(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("events_v9", tmp_path)
    remove(table, EVENTS_V9)

    first = decided(table, lost_ago(5, 1))
    third = decided(table, lost_ago(5, 3), lost_ago(60, 2), lost_ago(90, 1))

    assert isinstance(first, Skip)
    assert isinstance(third, Skip)
    assert first.look_again == timedelta(seconds=10)
    assert third.look_again == timedelta(seconds=55)
    sentences.check("clusterings lost against a writer", third.reason, lost=3)


def test_after_the_pause_and_after_a_success_it_is_decided_anew(tmp_path: Path) -> None:
    table = copied("events_v9", tmp_path)
    remove(table, EVENTS_V9)
    done = operation(PLANNING, status=Status.SUCCEEDED, result={"instants": ["x"]}, finished_at=NOON)

    assert isinstance(decided(table, lost_ago(20, 1)), TableProcess)
    assert isinstance(decided(table, done, lost_ago(1, 1)), TableProcess)
