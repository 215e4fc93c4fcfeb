# SPDX-License-Identifier: Apache-2.0
"""Cleaning of old versions, without Spark: what may go goes; what is live, young, tagged or uncommitted stays."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import pytest
from lance.fragment import write_fragments

from lakehand.formats.lance import LanceProcessFactory
from lakehand.jobs.lance.clean_versions import LiveFileInDanger, limits_of, refuse_live_files
from lakehand.jobs.safety import BelowFloor
from lakehand.spi import EngineState, EngineStatus, Finding, Json, Remedy, Skip
from lakehand.testing import untouched
from tests import lance_tables
from tests.formats.classifying import failure_of
from tests.formats.lance.runtime import harness
from tests.jobs.lance.meddling import execute_here
from tests.kit.interruptions import Killed, die

OLD = timedelta(days=20)


def make_history(folder: Path) -> Path:
    """Versions 1 to 110 with deletes, a compaction and an overwrite among them: all but the last ten are old."""
    path = lance_tables.make_table(folder / "it's history", fragments=50)
    lance_tables.delete(path, "id % 9 = 0")
    lance.dataset(str(path)).optimize.compact_files()
    lance_tables.overwrite(path, 0)
    while lance_tables.latest(path) < 110:
        lance_tables.append(path, lance_tables.latest(path) * 10)
    lance_tables.make_older(path, OLD, up_to=100)
    return path


def test_a_hundred_old_versions_and_their_files_go(tmp_path: Path) -> None:
    path = make_history(tmp_path)
    subject, before, files = harness(path), lance_tables.facts(path), data_files(path)

    done = subject.serve("clean-versions")

    assert done.process.reason == "100 of 110 versions are older than 14d and held by nothing"
    assert lance_tables.versions(path) == list(range(101, 111))
    assert lance_tables.facts(path) == before
    assert (len(files), len(data_files(path))) == (108, 57), "those before the overwrite"
    assert (done.result["versions_removed"], done.result["changed"]) == (100, True)
    assert "100 versions older than" in done.reason
    assert isinstance(skip := subject.wants("clean-versions"), Skip)
    assert skip.reason.startswith("0 of 10 versions are older than 14d")


def test_a_dry_run_lists_exactly_what_would_go_and_deletes_nothing(tmp_path: Path) -> None:
    path = make_history(tmp_path)
    subject = harness(path)
    operation = subject.admitted(subject.asked("clean-versions", dry_run=True))
    with untouched(path):
        listed = subject.execute(operation)
    assert subject.settled(operation, listed).result["changed"] is False

    before = everything(path)
    subject.serve("clean-versions")

    gone = before - everything(path)
    assert set(listed["would_delete"]) == gone
    assert (listed["would_delete_files"], listed["would_delete_versions"]) == (len(gone), 100)


def test_tagged_branched_young_and_uncommitted_files_stay(tmp_path: Path) -> None:
    path = make_history(tmp_path)
    dataset = lance.dataset(str(path))
    dataset.tags.create("release", 20)
    dataset.create_branch("experiment", 40)
    uncommitted = write_fragments(lance_tables.rows(50_000, 10), str(path))
    kept = {name: lance_tables.facts(path, name) for name in ("release", 40, 101, 105)}
    branch = rows_of(lance.dataset(str(path)).checkout_version(("experiment", None)))

    harness(path, {"lance.clean-versions.max-age": "1s"}).serve("clean-versions")

    assert lance_tables.versions(path) == [20, 40, *range(101, 111)]
    assert {name: lance_tables.facts(path, name) for name in kept} == kept
    assert rows_of(lance.dataset(str(path)).checkout_version(("experiment", None))) == branch
    append: Any = lance.LanceOperation.Append(uncommitted)
    lance.LanceDataset.commit(str(path), append, read_version=110)
    assert lance_tables.facts(path)[0] == 580


def test_the_newest_versions_are_retained_whatever_their_age(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance_tables.make_older(path, timedelta(days=4000))
    before = lance_tables.facts(path)

    harness(path, {"lance.clean-versions.retain-versions": "3"}).serve("clean-versions")
    assert lance_tables.versions(path) == [10, 11, 12]
    harness(path, {"lance.clean-versions.retain-versions": "0"}).serve("clean-versions")

    assert (lance_tables.versions(path), lance_tables.facts(path)) == ([12], before)


@pytest.mark.parametrize(
    "odd",
    [
        {"hours": 0},
        {"hours": 23},
        {"hours": -24},
        {"retain_versions": 0},
        {"retain_versions": -1},
        {"retain_versions": True},
        {"retain_versions": "1"},
        {"retain_versions": None},
    ],
)
def test_odd_parameters_given_straight_to_the_job_delete_nothing(tmp_path: Path, odd: dict[str, Any]) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=3)
    lance_tables.make_older(path, timedelta(hours=23, minutes=30))
    subject = harness(path)
    operation = subject.asked("clean-versions")
    cutoff = ago(odd.get("hours", 240))
    parameters: dict[str, Any] = {"location": str(path), "cutoff_ms": cutoff, "retain_versions": 1, **odd}
    process = operation_with(subject.admitted(operation), parameters)

    with untouched(path), pytest.raises(BelowFloor) as caught:
        subject.execute(process)

    failure = subject.failure(process, caught.value)
    assert (failure.reason, failure.remedy) == ("refused", Remedy.FATAL)


def test_a_cut_off_by_a_clock_that_runs_a_little_ahead_still_keeps_a_day() -> None:
    now = datetime.now(timezone.utc)
    cutoff = now - timedelta(hours=23, minutes=56)

    limits = limits_of({"cutoff_ms": int(cutoff.timestamp() * 1000), "retain_versions": 2}, now)

    assert limits["older_than"] == timedelta(days=1)
    assert (limits["delete_unverified"], limits["error_if_tagged_old_versions"]) == (False, False)


@pytest.mark.parametrize("holder", ["latest", "tag", "branch"])
def test_a_live_file_among_the_candidates_stops_everything(tmp_path: Path, holder: str) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1)
    for number in range(1, 4):
        lance_tables.overwrite(path, number)
    dataset = lance.dataset(str(path))
    dataset.tags.create("kept", 2)
    dataset.create_branch("side", 3)
    held: Any = {"latest": None, "tag": "kept", "branch": ("side", None)}[holder]
    version = dataset.checkout_version(held) if held else dataset
    file = version.get_fragments()[-1].metadata.files[0].path
    candidate = SimpleNamespace(path=f"any/where/data/{file}", kind="data")

    with pytest.raises(LiveFileInDanger, match=file) as caught:
        refuse_live_files(lance.dataset(str(path)), SimpleNamespace(candidate_files=[candidate]))

    status = EngineStatus(
        state=EngineState.FAILED, error_class=f"x.{type(caught.value).__name__}", message=str(caught.value)
    )
    assert failure_of(LanceProcessFactory(), "clean-versions", status).remedy is Remedy.FATAL


def test_a_job_that_dies_before_it_deletes_is_repeated_and_one_that_dies_after_it_is_not(tmp_path: Path) -> None:
    path = make_history(tmp_path)
    subject, before = harness(path), lance_tables.facts(path)
    wanted = subject.asked("clean-versions")
    operation = subject.admitted(wanted)
    with pytest.raises(Killed):
        execute_here(operation, "removing 100 versions", die)
    assert subject.verdict(operation, {}).finding is Finding.NOT_DONE
    subject.execute(operation)

    assert subject.verdict(operation, {}).finding is Finding.DONE, "the result was lost"
    again = subject.execute(operation)

    assert again["versions_removed"] == 0
    assert subject.verdict(operation, again).finding is Finding.DONE
    assert lance_tables.facts(path) == before


def test_an_append_in_the_middle_of_a_cleaning_is_kept(tmp_path: Path) -> None:
    path = make_history(tmp_path)
    subject, rows = harness(path), lance_tables.facts(path)[0]
    operation = subject.admitted(subject.asked("clean-versions"))

    result = execute_here(operation, "removing 100 versions", lambda: lance_tables.append(path, 90_000))

    assert subject.settled(operation, result).result["changed"] is True
    assert lance_tables.facts(path)[0] == rows + 10


def operation_with(operation: Any, parameters: dict[str, Json]) -> Any:
    return replace(operation, process=replace(operation.process, parameters=parameters))


def ago(hours: float) -> int:
    return int((datetime.now(timezone.utc) - timedelta(hours=hours)).timestamp() * 1000)


def data_files(path: Path) -> set[str]:
    return {file.name for file in (path / "data").iterdir()}


def everything(path: Path) -> set[str]:
    return {str(file) for file in path.rglob("*") if file.is_file()}


def rows_of(dataset: Any) -> list[Any]:
    return sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"])
