# SPDX-License-Identifier: Apache-2.0
"""What the factory wants for tables as real writers left them."""

import os
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION
from lakehand.spi import Action, Instant, Scheduling, Skip, Status, TableProcess
from tests.formats.hudi.runtime import (
    EVENTS_V6,
    EVENTS_V9,
    FILE_LOCK,
    NOON,
    ORDERS_V6,
    ORDERS_V9,
    TABLES,
    MemoryRuntime,
    commit,
    copied,
    ended,
    finish,
    operation,
    remove,
    set_property,
    timeline,
)
from tests.kit.sentences import Sentences

SERVICE = Scheduling.SERVICE


def decided(table: Path, action: Action, **runtime: Any) -> TableProcess | Skip:
    factory = HudiProcessFactory()
    factory.open({})
    return factory.trigger(MemoryRuntime(table, **runtime), action)


def why_not(table: Path, action: Action, **runtime: Any) -> str:
    answer = decided(table, action, **runtime)
    assert isinstance(answer, Skip)
    return answer.reason


@pytest.mark.parametrize("scheduling", list(Scheduling))
@pytest.mark.parametrize(
    ("name", "action", "instant", "urgent"),
    [
        ("orders_v9", COMPACTION, ORDERS_V9, False),
        ("orders_v6", COMPACTION, ORDERS_V6, False),
        ("events_v9", CLUSTERING, EVENTS_V9, True),
        ("events_v6", CLUSTERING, EVENTS_V6, True),
    ],
)
def test_a_plan_that_the_writer_left_is_run(
    name: str, action: Action, instant: Instant, urgent: bool, scheduling: Scheduling
) -> None:
    process = decided(TABLES / name, action, scheduling=scheduling)

    assert isinstance(process, TableProcess)
    assert (process.instant, process.job, process.urgent) == (instant, f"hudi.{action}", urgent)
    assert process.parameters["mode"] == "execute"


def test_the_reason_to_run_a_plan_has_its_age_and_its_size(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    os.utime(timeline(table) / f"{ORDERS_V9}.compaction.requested", (NOON.timestamp(), NOON.timestamp()))

    size = {"groups": 2, "files": 6, "bytes": 5920}
    since = "2026-11-15 12:00:00 UTC"
    sentences.check("a plan is run", decided(table, COMPACTION).reason, plan=ORDERS_V9, since=since, **size)


def test_without_a_plan_the_reason_has_the_numbers(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    finish(table, ORDERS_V9, "commit")

    compaction, clean = why_not(table, COMPACTION), why_not(table, CLEAN)
    sentences.check("no plan to compact", compaction, commits=1, last=ORDERS_V9)
    sentences.check("no plan to clean, and there was none", clean, commits=7)


def test_a_plan_that_belongs_to_an_operation_is_not_run_twice(sentences: Sentences) -> None:
    known = ended(COMPACTION, ORDERS_V9, Status.RUNNING)

    reason = why_not(TABLES / "orders_v9", COMPACTION, operations=[known])
    sentences.check("the plan belongs to an operation", reason, plan=ORDERS_V9, operation=7, status="running")


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED])
def test_a_plan_that_failed_waits_for_a_person_and_names_the_command(status: Status, sentences: Sentences) -> None:
    reason = why_not(TABLES / "orders_v9", COMPACTION, operations=[ended(COMPACTION, ORDERS_V9, status)])

    retry = "lakehand operations retry 7"
    sentences.check("the plan failed before", reason, plan=ORDERS_V9, status=status, operation=7, command=retry)


def test_a_plan_that_had_been_lost_and_is_back_is_run() -> None:
    dropped = ended(COMPACTION, ORDERS_V9, Status.DROPPED)

    found = decided(TABLES / "orders_v9", COMPACTION, operations=[dropped])
    assert isinstance(found, TableProcess)
    assert found.instant == ORDERS_V9


def test_a_removed_plan_stays_removed(sentences: Sentences) -> None:
    removed = ended(COMPACTION, ORDERS_V9, Status.CANCELED, is_deleted=True)

    reason = why_not(TABLES / "orders_v9", COMPACTION, operations=[removed])
    sentences.check("the plan was removed", reason, plan=ORDERS_V9, operation=7)


def test_the_older_of_two_plans_comes_first(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    folder = table / ".hoodie" / "timeline"
    newer = Instant("20991115120000000")
    (folder / f"{newer}.compaction.requested").write_bytes((folder / f"{ORDERS_V9}.compaction.requested").read_bytes())

    first = decided(table, COMPACTION)
    second = decided(table, COMPACTION, operations=[ended(COMPACTION, ORDERS_V9, Status.RUNNING)])

    assert isinstance(first, TableProcess)
    assert isinstance(second, TableProcess)
    assert (first.instant, second.instant) == (ORDERS_V9, newer)


@pytest.mark.parametrize(
    ("name", "action"), [("orders_v9", COMPACTION), ("events_v9", CLUSTERING), ("orders_v9", CLEAN)]
)
def test_the_switches_of_rfc_43_are_honoured(name: str, action: Action, sentences: Sentences) -> None:
    for key in ("hoodie.table.services.enable", f"hoodie.table.service.{action}.enable"):
        reason = why_not(TABLES / name, action, properties={key: "false"})
        sentences.check("the action is off", reason, key=key, source="table")

    others = {f"hoodie.table.service.{one}.enable": "false" for one in (COMPACTION, CLUSTERING, CLEAN) if one != action}
    answer = decided(TABLES / name, action, properties=others)
    assert isinstance(answer, TableProcess) or "enable" not in answer.reason


def test_a_copy_on_write_table_has_nothing_to_compact(sentences: Sentences) -> None:
    sentences.check("nothing to compact in a copy-on-write table", why_not(TABLES / "events_v9", COMPACTION))


@pytest.mark.parametrize(
    ("key", "value", "case"),
    [
        ("hoodie.table.version", "10", "unknown table version"),
        ("hoodie.table.version", "5", "unknown table version"),
        ("hoodie.table.base.file.format", "LANCE", "unknown base files"),
        ("hoodie.table.format", "iceberg", "unknown table format"),
        ("hoodie.table.metadata.partitions", "crystal_ball", "unknown index"),
    ],
)
def test_a_table_with_features_that_we_do_not_know_is_left_alone(
    key: str, value: str, case: str, tmp_path: Path, sentences: Sentences
) -> None:
    table = copied("orders_v9", tmp_path)
    set_property(table, key, value)

    sentences.check(case, why_not(table, COMPACTION), unknown=value)


# Scheduling "service": we plan.


def planned(tmp_path: Path, name: str = "orders_v9", instant: Instant = ORDERS_V9) -> Path:
    """A captured table without its pending plan."""
    table = copied(name, tmp_path)
    remove(table, instant)
    return table


def test_without_the_tables_lock_nothing_is_planned_beside_its_writer(tmp_path: Path, sentences: Sentences) -> None:
    reason = why_not(planned(tmp_path), COMPACTION, scheduling=SERVICE)

    key = "hoodie.write.lock.provider"
    sentences.check("no plan without a lock", reason, action=COMPACTION, key=key)


def test_when_the_threshold_is_met_we_plan_and_run(tmp_path: Path, sentences: Sentences) -> None:
    properties = {**FILE_LOCK, "hudi.compaction.delta-commits": "3"}

    process = decided(planned(tmp_path), COMPACTION, scheduling=SERVICE, properties=properties)

    assert isinstance(process, TableProcess)
    assert process.instant is None
    assert process.parameters["mode"] == "plan-and-execute"
    sentences.check("enough delta commits", process.reason, commits=3, last="20261115213942975")


def test_below_the_threshold_the_reason_has_the_numbers(tmp_path: Path, sentences: Sentences) -> None:
    table = planned(tmp_path)

    reason = why_not(table, COMPACTION, scheduling=SERVICE, properties=FILE_LOCK)
    sentences.check("too few delta commits", reason, commits=3, needed=5)


def test_an_operation_under_way_is_not_doubled(tmp_path: Path, sentences: Sentences) -> None:
    properties = {**FILE_LOCK, "hudi.compaction.delta-commits": "3"}
    busy = operation(TableProcess(action=COMPACTION, parameters={"mode": "plan-and-execute"}))

    reason = why_not(planned(tmp_path), COMPACTION, scheduling=SERVICE, properties=properties, operations=[busy])
    sentences.check("an operation is under way", reason, operation=7, status="pending")


def test_a_plan_that_our_own_operation_has_just_made_is_left_to_it(sentences: Sentences) -> None:
    planner = operation(TableProcess(action=COMPACTION, parameters={"mode": "plan-and-execute"}), status=Status.RUNNING)
    table = TABLES / "orders_v9"

    reason = why_not(table, COMPACTION, scheduling=SERVICE, properties=FILE_LOCK, operations=[planner])
    sentences.check("an operation is under way", reason, operation=7, status="running")


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELED])
def test_planning_without_effect_is_not_repeated_until_something_changes(
    status: Status, tmp_path: Path, sentences: Sentences
) -> None:
    table = planned(tmp_path)
    runtime: dict[str, Any] = {
        "scheduling": SERVICE,
        "properties": {**FILE_LOCK, "hudi.compaction.delta-commits": "2"},
    }
    first = decided(table, COMPACTION, **runtime)
    assert isinstance(first, TableProcess)
    earlier = operation(first, status=status)

    reason = why_not(table, COMPACTION, operations=[earlier], **runtime)
    sentences.check("too few delta commits since an operation", reason, commits=0, needed=2, operation=7)
    commit(table, "20991115120000000")
    commit(table, "20991115120001000")
    assert isinstance(decided(table, COMPACTION, operations=[earlier], **runtime), TableProcess)


@pytest.mark.parametrize("action", [CLEAN, COMPACTION])
def test_nothing_is_planned_while_a_clustering_blocks_the_writer(
    action: Action, tmp_path: Path, sentences: Sentences
) -> None:
    table = planned(tmp_path)
    folder = table / ".hoodie" / "timeline"
    (folder / "20991115120000000.clustering.requested").touch()

    reason = why_not(table, action, scheduling=SERVICE, properties=FILE_LOCK)
    sentences.check("another plan goes first", reason, action="clustering", plan="20991115120000000")


def test_no_clean_is_planned_while_a_compaction_is_pending(sentences: Sentences) -> None:
    reason = why_not(TABLES / "orders_v9", CLEAN, scheduling=SERVICE, properties=FILE_LOCK)

    sentences.check("another plan goes first", reason, action="compaction", plan=ORDERS_V9)


def test_a_clean_keeps_what_is_retained(tmp_path: Path, sentences: Sentences) -> None:
    table = planned(tmp_path)
    properties = {**FILE_LOCK, "hudi.clean.commits": "3"}

    reason = why_not(table, CLEAN, scheduling=SERVICE, properties=properties)
    sentences.check("all commits are retained", reason, commits=6, retained=10)
    fewer = {**properties, "hudi.clean.retain-commits": "4"}
    assert isinstance(decided(table, CLEAN, scheduling=SERVICE, properties=fewer), TableProcess)
