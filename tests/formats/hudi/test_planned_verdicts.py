# SPDX-License-Identifier: Apache-2.0
"""Verdicts from the timeline about work that is over."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION, HudiSnapshot
from lakehand.spi import Action, Finding, Instant, TableProcess, Verdict
from tests.formats.hudi.runtime import (
    EVENTS_V9,
    ORDERS_V6,
    ORDERS_V9,
    TABLES,
    MemoryRuntime,
    copied,
    finish,
    remove,
    timeline,
)
from tests.kit.sentences import Sentences

NOTHING: dict[str, Any] = {"instants": [], "planned": [], "rows": []}


def verdict(table: Path, process: TableProcess, result: dict[str, Any] | None = None) -> Verdict:
    return HudiProcessFactory().verify(MemoryRuntime(table), process, result or {})


def executing(action: Action, instant: Instant) -> TableProcess:
    return TableProcess(action=action, instant=instant, parameters={"mode": "execute"})


def planning(action: Action = COMPACTION, before: tuple[str, ...] = ("20261115213942975",)) -> TableProcess:
    return TableProcess(action=action, parameters={"mode": "plan-and-execute", "before": list(before)})


@pytest.mark.parametrize(("name", "instant"), [("orders_v9", ORDERS_V9), ("orders_v6", ORDERS_V6)])
def test_a_completed_file_is_success_and_no_file_is_none(name: str, instant: Instant, tmp_path: Path) -> None:
    table = copied(name, tmp_path)
    assert verdict(table, executing(COMPACTION, instant)).finding is Finding.NOT_DONE

    completed = finish(table, instant, "commit")

    found = verdict(table, executing(COMPACTION, instant))
    assert (found.finding, found.numbers["completed"]) == (Finding.DONE, [completed])


def test_a_savepoint_of_a_commit_is_no_second_completion(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    completed = finish(table, ORDERS_V9, "commit")
    finish(table, ORDERS_V9, "savepoint")

    found = verdict(table, executing(COMPACTION, ORDERS_V9))

    assert (found.finding, found.numbers["completed"]) == (Finding.DONE, [completed])


def test_the_numbers_of_a_commit_show_what_it_wrote() -> None:
    for name, instant in (("orders_v9", "20261115213942975"), ("orders_v6", "20261115214235325")):
        numbers = verdict(TABLES / name, executing(COMPACTION, Instant(instant))).numbers
        assert (numbers["files_written"], numbers["rows_written"]) == (2, 10)
        assert numbers["log_files_compacted"] == numbers["files_removed"] == 2
        assert numbers["bytes_rewritten"] == numbers["bytes_written"]


def test_the_numbers_of_a_clean_show_what_it_deleted() -> None:
    for name, instant in (("events_v9", "20261115214129548"), ("events_v6", "20261115214503460")):
        numbers = verdict(TABLES / name, executing(CLEAN, Instant(instant))).numbers
        deleted = numbers["files_deleted"]
        assert isinstance(deleted, int)
        assert deleted > 0
        assert numbers["files_removed"] == deleted


def test_a_plan_in_flight_is_not_done(tmp_path: Path) -> None:
    table = copied("events_v9", tmp_path)
    (timeline(table) / f"{EVENTS_V9}.clustering.inflight").touch()

    assert verdict(table, executing(CLUSTERING, EVENTS_V9)).finding is Finding.NOT_DONE


def test_a_plan_that_left_the_timeline_is_gone(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    remove(table, ORDERS_V9)

    assert verdict(table, executing(COMPACTION, ORDERS_V9)).finding is Finding.GONE


def test_a_plan_that_the_job_completed_and_the_writer_archived_is_done() -> None:
    old = Instant("20250101000000000")

    with_result = verdict(TABLES / "orders_v9", executing(COMPACTION, old), {"instants": [old]})
    without_result = verdict(TABLES / "orders_v9", executing(COMPACTION, old))

    assert (with_result.finding, without_result.finding) == (Finding.DONE, Finding.GONE)


def test_two_completed_files_are_reported(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    finish(table, ORDERS_V9, "commit")
    (timeline(table) / f"{ORDERS_V9}_20991115120000000.commit").touch()

    found = verdict(table, executing(COMPACTION, ORDERS_V9))

    assert found.finding is Finding.DONE
    sentences.check("completed more than once", found.reason, times=2)


def test_a_table_that_is_gone_takes_its_plan_along(tmp_path: Path) -> None:
    assert verdict(tmp_path / "nowhere", executing(COMPACTION, ORDERS_V9)).finding is Finding.GONE


def test_a_timeline_that_cannot_be_read_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = copied("orders_v9", tmp_path)
    shutil.rmtree(timeline(table))
    assert verdict(table, executing(COMPACTION, ORDERS_V9)).finding is Finding.UNREADABLE

    def broken(runtime: MemoryRuntime) -> HudiSnapshot:
        raise OSError("the storage does not answer")

    monkeypatch.setattr(MemoryRuntime, "snapshot", broken)
    assert verdict(table, executing(COMPACTION, ORDERS_V9)).finding is Finding.UNREADABLE


def test_planned_work_is_done_when_each_instant_is_completed(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    result = {"instants": [ORDERS_V9], "planned": [ORDERS_V9]}
    assert verdict(table, planning(), result).finding is Finding.NOT_DONE

    finish(table, ORDERS_V9, "commit")

    assert verdict(table, planning(), result).finding is Finding.DONE


def test_nothing_to_do_is_done_unless_a_plan_is_left(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    assert verdict(table, planning(), NOTHING).finding is Finding.NOT_DONE

    remove(table, ORDERS_V9)

    found = verdict(table, planning(), NOTHING)
    assert (found.finding, found.numbers) == (Finding.DONE, {})
    sentences.check("Hudi made no plan", found.reason, action=COMPACTION)


def test_after_the_loss_of_the_engine_only_what_is_new_counts(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    assert verdict(table, planning()).finding is Finding.NOT_DONE
    sentences.check("a plan is left", verdict(table, planning()).reason, plan=ORDERS_V9)

    finish(table, ORDERS_V9, "commit")
    assert verdict(table, planning()).finding is Finding.DONE

    remove(table, ORDERS_V9)
    assert verdict(table, planning()).finding is Finding.NOT_DONE
