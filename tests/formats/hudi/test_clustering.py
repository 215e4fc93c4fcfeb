# SPDX-License-Identifier: Apache-2.0
"""A clustering: the writer wins, a stale plan is never run, and writers that can fail beside it are warned of."""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import CLUSTERING, COMPACTION
from lakehand.formats.hudi.turns import clusterings_to_come
from lakehand.spi import Drop, Failure, Finding, Instant, Operation, Scheduling, Skip, Status, TableProcess
from tests.formats.hudi.runtime import (
    EVENTS_V6,
    EVENTS_V9,
    FILE_LOCK,
    NOON,
    ORDERS_V9,
    TABLES,
    MemoryRuntime,
    asked_for,
    commit,
    copied,
    finish,
    operation,
    remove,
    timeline,
)
from tests.kit.sentences import TIME, Sentences

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


GROUP_V9 = "b95350d6-bb32-4de6-a508-a9b16671096f-0"
GROUP_V6 = "35758d04-5413-485d-98a6-8b39fd7c0bf2-0"
LATER = "20261115230000000"


def admitted(table: Path, plan: Instant, properties: dict[str, str] | None = None) -> object:
    factory = HudiProcessFactory()
    factory.open({})
    return factory.admit(MemoryRuntime(table, properties=properties), asked_for(CLUSTERING, plan))


def write(table: Path, name: str) -> None:
    (table / "p0").mkdir(exist_ok=True)
    (table / "p0" / name).write_bytes(b"rows")


@pytest.mark.parametrize(
    ("name", "plan", "newer"),
    [
        ("events_v9", EVENTS_V9, f"{GROUP_V9}_0-1-1_{LATER}.parquet"),
        ("events_v9", EVENTS_V9, f".{GROUP_V9}_{LATER}.log.1_0-1-1"),
        ("events_v6", EVENTS_V6, f"{GROUP_V6}_0-1-1_{LATER}.parquet"),
        ("events_v6", EVENTS_V6, f".{GROUP_V6}_20261115214511092.log.1_0-1-1"),
    ],
)
def test_a_plan_whose_file_group_has_newer_files_fails_with_that_reason(
    tmp_path: Path, name: str, plan: Instant, newer: str
) -> None:
    table = copied(name, tmp_path)
    commit(table, LATER, "commit")
    write(table, newer)
    answer = admitted(table, plan)
    assert isinstance(answer, Failure)
    assert newer in answer.message
    assert answer.remedy == "fatal"


def test_under_a_shared_lock_the_stale_plan_is_given_to_the_job_to_roll_back(tmp_path: Path) -> None:
    table = copied("events_v9", tmp_path)
    commit(table, LATER, "commit")
    write(table, f"{GROUP_V9}_0-1-1_{LATER}.parquet")

    answer = admitted(table, EVENTS_V9, FILE_LOCK)

    assert isinstance(answer, TableProcess)
    stale = answer.parameters["stale"]
    assert isinstance(stale, dict)
    assert LATER in stale[EVENTS_V9]
    assert answer.parameters["may_roll_back"] is True


def test_a_write_that_began_before_the_plan_and_ended_after_it_makes_the_plan_stale(tmp_path: Path) -> None:
    table = copied("events_v9", tmp_path)
    before = "20261115214138000"
    commit(table, before, "commit")
    write(table, f"{GROUP_V9}_0-1-1_{before}.parquet")

    assert isinstance(admitted(table, EVENTS_V9), Failure)


@pytest.mark.parametrize(
    "other",
    [
        f"{GROUP_V9}_0-139-272_20261115214132814.parquet",  # the slice that the plan reads
        f"{GROUP_V9}_0-1-1_20261115214059849.parquet",  # an older slice
        f"{GROUP_V9}_0-1-1_20261115230000001.parquet",  # left by a write that never completed
        f"another-group-0_0-1-1_{LATER}.parquet",
        ".hoodie_partition_metadata",
    ],
)
def test_other_files_do_not_hinder_the_plan(tmp_path: Path, other: str) -> None:
    table = copied("events_v9", tmp_path)
    commit(table, LATER, "commit")
    write(table, other)
    assert isinstance(admitted(table, EVENTS_V9), TableProcess)


BESIDE = "20261115214200000"


def reason(table: Path, **runtime: dict[str, str]) -> str:
    return HudiProcessFactory().trigger(MemoryRuntime(table, **runtime), CLUSTERING).reason  # type: ignore[arg-type]


def set_times(table: Path, **seconds: int) -> None:
    """Seconds before noon, for the files of an instant."""
    for file in timeline(table).iterdir():
        os.utime(file, (NOON.timestamp() - 10_000, NOON.timestamp() - 10_000))
    for name, before in seconds.items():
        for file in timeline(table).glob(f"{name.removeprefix('_')}*"):
            os.utime(file, (NOON.timestamp() - before, NOON.timestamp() - before))


def test_clusterings_without_a_shared_lock_are_warned_of(sentences: Sentences) -> None:
    plan = {"plan": EVENTS_V9, "since": TIME}
    sentences.check("a clustering plan without a lock", reason(TABLES / "events_v9"), **plan)
    sentences.check("a clustering plan", reason(TABLES / "events_v9", properties=FILE_LOCK), **plan)


def test_a_table_that_nobody_clusters_is_not_warned_of(sentences: Sentences) -> None:
    sentences.check("no clustering plan, and there was none", reason(TABLES / "orders_v9"))


@pytest.mark.parametrize(("age", "is_reported"), [(600, True), (10, False)])
def test_a_write_given_up_beside_a_pending_clustering_is_reported(
    age: int, is_reported: bool, tmp_path: Path, sentences: Sentences
) -> None:
    table = copied("events_v9", tmp_path)
    (timeline(table) / f"{BESIDE}.commit.requested").touch()
    set_times(table, **{f"_{EVENTS_V9}": 1000, f"_{BESIDE}": age})

    message = reason(table, properties=FILE_LOCK)

    plan = {"plan": EVENTS_V9, "since": TIME}
    if is_reported:
        sentences.check("a write was given up beside a clustering plan", message, **plan, write=BESIDE)
    else:
        sentences.check("a clustering plan", message, **plan)


def test_a_write_that_went_on_is_not_reported(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("events_v9", tmp_path)
    (timeline(table) / f"{BESIDE}.commit.requested").touch()
    (timeline(table) / f"{BESIDE}.inflight").touch()
    set_times(table, **{f"_{EVENTS_V9}": 1000, f"_{BESIDE}": 600})

    sentences.check("a clustering plan", reason(table, properties=FILE_LOCK), plan=EVENTS_V9, since=TIME)


def test_a_write_that_was_given_up_after_the_clustering_is_not_reported(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("events_v9", tmp_path)
    finish(table, EVENTS_V9, "replacecommit")
    (timeline(table) / f"{BESIDE}.commit.requested").touch()
    set_times(table, **{f"_{EVENTS_V9}": 1000, f"_{BESIDE}": 600})

    sentences.check("no clustering plan", reason(table, properties=FILE_LOCK), last=EVENTS_V9)


@pytest.mark.parametrize("scheduling", list(Scheduling))
def test_a_table_with_a_bucket_index_is_not_clustered_and_its_plan_blocks_nobody(
    scheduling: Scheduling, tmp_path: Path, sentences: Sentences
) -> None:
    """The writer finds a bucket by the names of files, which a clustering makes anew: its next write would fail."""
    table = copied("events_v9", tmp_path)
    buckets = {**EAGER, "hoodie.index.type": "BUCKET"}
    runtime = MemoryRuntime(table, scheduling=scheduling, properties=buckets)

    wanted = HudiProcessFactory().trigger(runtime, CLUSTERING)
    admitted = HudiProcessFactory().admit(runtime, asked_for(CLUSTERING, EVENTS_V9))

    assert isinstance(wanted, Skip)
    assert isinstance(admitted, Skip)
    assert wanted.reason == admitted.reason
    sentences.check("a bucket index", wanted.reason)
    context = HudiProcessFactory().context(runtime, COMPACTION)
    assert clusterings_to_come(context) == []
    other = MemoryRuntime(table, scheduling=scheduling, properties={**EAGER, "hoodie.index.type": "SIMPLE"})
    assert clusterings_to_come(HudiProcessFactory().context(other, COMPACTION)) == [EVENTS_V9]


def test_a_bucket_index_shows_in_the_files_of_a_copy_on_write_table(tmp_path: Path) -> None:
    table = copied("events_v9", tmp_path)
    stats = [{"fileId": "00000001-1111-2222-3333-444455556666-0", "path": "p0/a.parquet"}]
    written = json.dumps({"partitionToWriteStats": {"p0": stats}})
    (timeline(table) / "20261115215000000_20261115215005000.commit").write_text(written)

    reason = HudiProcessFactory().trigger(MemoryRuntime(table, properties=EAGER), CLUSTERING).reason

    assert "bucket" in reason
