# SPDX-License-Identifier: Apache-2.0
"""When an index is built: asked for, kept by the writers, under the lock; and how the table proves that it is there."""

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakehand.domain.processes import Json
from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import COMPACTION, INDEXING
from lakehand.spi import Failure, Finding, Instant, Scheduling, Skip, Status, TableProcess, Verdict
from tests.formats.hudi.runtime import (
    FILE_LOCK,
    NOON,
    ORDERS_V9,
    MemoryRuntime,
    copied,
    ended,
    operation,
    set_property,
    timeline,
)
from tests.kit.sentences import Sentences

PLAN = Instant("20261115220000000")
ASKED = {
    **FILE_LOCK,
    "hudi.indexing.indexes": "column_stats,record_index",
    "hudi.indexing.writers-maintain": "true",
}
PARTITIONS = "hoodie.table.metadata.partitions"
INFO = {"name": "Info", "type": "record", "fields": [{"name": "metadataPartitionPath", "type": "string"}]}
SCHEMA = {
    "name": "Plan", "type": "record",
    "fields": [{"name": "indexPartitionInfos", "type": {"type": "array", "items": INFO}}],
}  # fmt: skip


@pytest.fixture(params=["orders_v9", "orders_v6"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table with a metadata table, and column statistics in it."""
    path = copied(request.param, tmp_path)
    set_property(path, PARTITIONS, "column_stats,files")
    return path


def leave_plan(path: Path, *indexes: str, name: str = f"{PLAN}.indexing.requested") -> None:
    stream = io.BytesIO()
    infos = [{"metadataPartitionPath": one} for one in indexes]
    fastavro.writer(stream, fastavro.parse_schema(SCHEMA), [{"indexPartitionInfos": infos}])
    (timeline(path) / name).write_bytes(stream.getvalue())


def runtime(path: Path, properties: Mapping[str, str] = ASKED, **changes: Any) -> MemoryRuntime:
    return MemoryRuntime(path, **{"properties": properties, "scheduling": Scheduling.SERVICE, **changes})


def decided(path: Path, properties: Mapping[str, str] = ASKED, **changes: Any) -> TableProcess | Skip:
    return HudiProcessFactory().trigger(runtime(path, properties, **changes), INDEXING)


def why_not(path: Path, properties: Mapping[str, str] = ASKED, **changes: Any) -> str:
    answer = decided(path, properties, **changes)
    assert isinstance(answer, Skip), answer
    return answer.reason


def admitted(path: Path, properties: Mapping[str, str] = ASKED, **stored: Any) -> Any:
    wanted = decided(path, properties)
    assert isinstance(wanted, TableProcess), wanted
    return HudiProcessFactory().admit(runtime(path, properties), operation(wanted, **stored))


def test_nothing_is_built_that_nobody_asked_for(table: Path, sentences: Sentences) -> None:
    sentences.check("no index is asked for", why_not(table, FILE_LOCK), indexes=2, names="column_stats, files")


def test_the_indexes_that_are_missing_are_built_and_no_others_are_turned_on(table: Path, sentences: Sentences) -> None:
    process = admitted(table)

    sentences.check("an index is missing", process.reason, missing=1, wanted=2, names="record_index")
    assert process.parameters["indexes"] == ["record_index"]
    options = process.parameters["options"]
    assert options["hoodie.metadata.global.record.level.index.enable"] == "true"
    assert options["hoodie.metadata.index.bloom.filter.enable"] == "false"
    assert options["hoodie.metadata.enable"] == "true"


def test_it_rests_when_all_are_there(table: Path, sentences: Sentences) -> None:
    set_property(table, PARTITIONS, "column_stats,files,record_index")

    sentences.check("all indexes are there", why_not(table), wanted=2, indexes=3)


@pytest.mark.parametrize(
    ("key", "value", "case"),
    [
        ("hudi.indexing.writers-maintain", "false", "writers would drop the index"),
        ("hoodie.write.lock.provider", "", "no index without a lock"),
        ("hudi.indexing.indexes", "../x", "an index that is not known is asked for"),
        ("hoodie.table.service.indexing.enable", "false", "indexing is off"),
    ],
)
def test_it_is_refused_with_the_reason(table: Path, key: str, value: str, case: str, sentences: Sentences) -> None:
    sentences.check(case, why_not(table, {**ASKED, key: value}), key=key)


def test_the_writer_plans_unless_the_table_says_that_the_service_does(table: Path, sentences: Sentences) -> None:
    left = why_not(table, scheduling=Scheduling.WRITER)
    sentences.check("an index is left to the writer", left, index="record_index")


def test_a_table_without_a_metadata_table_gets_none(table: Path, sentences: Sentences) -> None:
    """Hudi would build the index alone, and readers would take it for a whole metadata table."""
    set_property(table, PARTITIONS, "")

    sentences.check("no metadata table for an index", why_not(table))


def test_an_index_that_a_writer_drops_again_is_not_built_for_ever(table: Path, sentences: Sentences) -> None:
    built = ended(INDEXING, PLAN, Status.SUCCEEDED, result={"built": ["record_index"]})

    dropped = why_not(table, operations=[built])
    sentences.check("a writer drops the index again", dropped, operation=7, index="record_index")


def test_a_plan_that_someone_left_is_executed(table: Path, sentences: Sentences) -> None:
    leave_plan(table, "record_index")
    wanted = decided(table, FILE_LOCK)
    assert isinstance(wanted, TableProcess)
    assert wanted.instant == PLAN

    process = admitted(table, FILE_LOCK)
    assert (process.parameters["mode"], process.parameters["indexes"]) == ("execute", ["record_index"])
    waiting = admitted(table, {})
    assert isinstance(waiting, Skip)
    sentences.check("no plan of an index without a lock", waiting.reason, key="hoodie.write.lock.provider")


def test_a_plan_for_an_index_that_is_not_known_waits(table: Path, sentences: Sentences) -> None:
    leave_plan(table, "secondary_index_v")

    answer = admitted(table, FILE_LOCK)
    assert isinstance(answer, Skip)
    sentences.check("a plan builds an unknown index", answer.reason, index="secondary_index_v")


def test_an_index_that_someone_builds_is_waited_for_by_all_actions_and_our_own_is_not(
    table: Path, sentences: Sentences
) -> None:
    set_property(table, f"{PARTITIONS}.inflight", "record_index")
    leave_plan(table, "record_index")
    begun = timeline(table) / f"{PLAN}.indexing.inflight"
    begun.touch()
    os.utime(begun, (NOON.timestamp(),) * 2)

    waiting = admitted(table, FILE_LOCK)
    assert isinstance(waiting, Skip)
    sentences.check("someone builds an index by this plan", waiting.reason, since="2026-11-15 12:00:00 UTC")
    assert isinstance(admitted(table, FILE_LOCK, run_times=1), TableProcess)
    other = HudiProcessFactory().admit(
        runtime(table), operation(TableProcess(action=COMPACTION, parameters={}), instant=ORDERS_V9)
    )
    assert isinstance(other, Skip)
    sentences.check("an index is being built", other.reason, index="record_index")


def test_a_write_that_never_ends_is_waited_for_here_and_not_in_the_engine(table: Path, sentences: Sentences) -> None:
    file = timeline(table) / "20261115110000000.deltacommit.requested"
    file.touch()
    os.utime(file, (NOON.timestamp() - 1200,) * 2)

    waiting = admitted(table)
    assert isinstance(waiting, Skip)
    found = {"write": "20261115110000000", "since": "2026-11-15 11:40:00 UTC"}
    sentences.check("no index while a write is under way", waiting.reason, **found)
    os.utime(file, (NOON.timestamp() - 600,) * 2)
    assert isinstance(admitted(table), TableProcess)


def verdict(path: Path, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    return HudiProcessFactory().verify(runtime(path), process, result)


def complete(path: Path, index: str) -> str:
    layout_2 = timeline(path).name == "timeline"
    name = f"{PLAN}_{int(PLAN) + 5000}.indexing" if layout_2 else f"{PLAN}.indexing"
    leave_plan(path, index, name=name)
    return name


@pytest.mark.parametrize("result", [{"instants": [PLAN]}, {}])
def test_the_completed_instant_and_the_properties_are_the_proof(
    table: Path, result: Mapping[str, Json], sentences: Sentences
) -> None:
    process = admitted(table)
    assert verdict(table, process, {}).finding is Finding.NOT_DONE
    leave_plan(table, "record_index")
    assert verdict(table, process, result).finding is Finding.NOT_DONE
    complete(table, "record_index")
    set_property(table, f"{PARTITIONS}.inflight", "record_index")
    sentences.check("the index is still being built", verdict(table, process, result).reason, index="record_index")

    set_property(table, f"{PARTITIONS}.inflight", "")
    set_property(table, PARTITIONS, "column_stats,files,record_index")

    found = verdict(table, process, result)
    assert found.finding is Finding.DONE
    assert found.numbers["built"] == ["record_index"]


def test_an_index_that_was_dropped_right_after_it_was_built_is_reported(table: Path, sentences: Sentences) -> None:
    process = admitted(table)
    leave_plan(table, "record_index")
    completed = complete(table, "record_index")

    found = verdict(table, process, {"instants": [PLAN]})
    assert found.finding is Finding.DONE
    gone = {"plan": PLAN, "file": completed, "index": "record_index"}
    sentences.check("the index was dropped at once", found.reason, **gone)


def test_a_person_can_ask_for_it_and_is_told_why_not(table: Path, sentences: Sentences) -> None:
    request = operation(TableProcess(action=INDEXING, parameters={"mode": "plan-and-execute"}), origin="api")

    assert isinstance(HudiProcessFactory().admit(runtime(table), request), TableProcess)
    refused = HudiProcessFactory().admit(runtime(table, FILE_LOCK), request)
    assert isinstance(refused, Failure)
    sentences.check("no index is asked for", refused.message, indexes=2, names="column_stats, files")
