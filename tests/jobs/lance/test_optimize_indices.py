# SPDX-License-Identifier: Apache-2.0
"""Optimising indices of real Lance tables: new rows are found by them, and nothing else changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job, JobCanceled
from lakehand.jobs.safety import UnsafeRequest
from lakehand.spi import Finding, Skip, Status, TableProcess
from lakehand.testing.harness import PluginHarness
from tests import lance_tables
from tests.formats.lance.runtime import harness
from tests.jobs.lance.meddling import execute_here
from tests.kit.interruptions import Interruptions, Killed, die

ACTION = "optimize-indices"
NAMES = ["id_idx", "note_idx", "v_idx", "vector_idx"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """400 rows that an index of each kind covers, and 60 that none does."""
    path = lance_tables.make_vectors(tmp_path / "t")
    for number in range(6):
        lance_tables.append_vectors(path, 1000 + number * 10)
    return path


def unindexed(path: Path) -> dict[str, int]:
    """Rows that each index does not cover, as Lance itself says it."""
    dataset: Any = lance.dataset(str(path))
    names = [index.name for index in dataset.describe_indices() if not index.name.startswith("__")]
    return {name: dataset.stats.index_stats(name)["num_unindexed_rows"] for name in sorted(names)}


def answers(path: Path) -> list[list[int]]:
    """What searches over the indices find; that of vectors asks for all rows in the order of their distance."""
    dataset: Any = lance.dataset(str(path))
    found = [dataset.to_table(filter=text, columns=["id"]) for text in ("id = 5", "id >= 1000 and id < 1030", "v = 15")]
    found += [dataset.to_table(full_text_query="3", columns=["id"])]
    nearest = {"column": "vector", "q": [1.0, 2.0, 3.0, 4.0], "k": 1000, "nprobes": 10}
    found += [dataset.to_table(nearest=nearest, columns=["id"])]
    return [sorted(table["id"].to_pylist()) for table in found]


def test_new_rows_get_into_every_index_once_and_then_it_rests(path: Path) -> None:
    subject, before, facts = harness(path), answers(path), lance_tables.facts(path)
    wanted = subject.wants(ACTION)
    assert isinstance(wanted, TableProcess)
    first = lance_tables.latest(path)

    done = subject.finish(subject.stored(wanted))

    assert unindexed(path) == dict.fromkeys(NAMES, 0)
    assert (answers(path), lance_tables.facts(path)) == (before, facts)
    versions = list(range(first + 1, first + 5))
    named = ", ".join(map(str, versions))
    assert done.reason == f"4 indices cover all rows that were there, in version {named}; 0 rows came since"
    assert (done.result["versions"], done.result["rows_before"], done.result["rows_after"]) == (versions, 460, 460)
    assert isinstance(subject.wants(ACTION), Skip)
    asked = subject.finish(subject.asked(ACTION))
    assert (asked.status, asked.result["changed"]) == (Status.SUCCEEDED, False)
    assert lance_tables.latest(path) == versions[-1], "optimising again changes nothing"


def test_parts_of_an_index_are_merged_into_one_and_it_rests(path: Path) -> None:
    for number in range(3):
        harness(path).finish(harness(path).asked(ACTION))
        lance_tables.append_vectors(path, 2000 + number * 10)
    assert parts(path)["vector_idx"] == 4
    subject = harness(path, {"lance.optimize-indices.max-parts": "2"})
    expected = answers(path)

    subject.serve(ACTION)

    assert parts(path) == dict.fromkeys(NAMES, 1)
    assert unindexed(path) == {"id_idx": 10, "note_idx": 10, "v_idx": 10, "vector_idx": 0}, "the others wait for more"
    assert answers(path) == expected
    assert isinstance(subject.wants(ACTION), Skip)


def parts(path: Path) -> dict[str, int]:
    return {index.name: len(index.segments) for index in lance.dataset(str(path)).describe_indices()}


@pytest.mark.parametrize("is_stable", [False, True])
@pytest.mark.spark
def test_compactions_and_optimising_come_to_rest_together(spark: SparkSession, tmp_path: Path, is_stable: bool) -> None:
    path = lance_tables.make_vectors(tmp_path / "t", fragments=12, each=30, enable_stable_row_ids=is_stable)
    for number in range(12):
        lance_tables.append_vectors(path, 1000 + number * 10)
    lance_tables.delete(path, "id % 9 = 0")
    subject, before, facts = harness(path, session=spark), answers(path), lance_tables.facts(path)

    rounds = 0
    while isinstance(subject.wants("compact"), TableProcess) or isinstance(subject.wants(ACTION), TableProcess):
        for action in ("compact", ACTION):
            if isinstance(subject.wants(action), TableProcess):
                subject.serve(action)
        rounds += 1
        assert rounds < 4, "they chase each other"

    assert unindexed(path) == dict.fromkeys(NAMES, 0)
    assert (answers(path), lance_tables.facts(path)) == (before, facts)
    assert len(lance_tables.fragments(path)) <= 3


def test_a_table_whose_remapping_of_indices_was_deferred_keeps_its_answers(tmp_path: Path) -> None:
    path = lance_tables.make_vectors(tmp_path / "t", fragments=12, each=30)
    lance.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=100, defer_index_remap=True)
    lance_tables.append_vectors(path, 1000, 50)
    subject, before, facts = harness(path), answers(path), lance_tables.facts(path)

    subject.serve(ACTION)

    assert (answers(path), lance_tables.facts(path)) == (before, facts)
    assert unindexed(path) == dict.fromkeys(NAMES, 0)


def test_a_driver_that_dies_in_the_middle_has_done_some_and_the_next_attempt_does_the_rest(path: Path) -> None:
    subject, facts = harness(path), lance_tables.facts(path)
    operation = subject.admitted(subject.asked(ACTION))

    with pytest.raises(Killed):
        execute_here(operation, "optimising index v_idx", die)

    assert unindexed(path) == {"id_idx": 0, "note_idx": 0, "v_idx": 60, "vector_idx": 60}
    verdict = subject.verdict(operation, {})
    assert (verdict.finding, verdict.reason) == (Finding.NOT_DONE, "2 of 4 indices are as they were, v_idx first")
    assert list(subject.execute(operation)["optimized"]) == ["v_idx", "vector_idx"]
    assert subject.verdict(operation, {}).finding is Finding.DONE
    assert lance_tables.facts(path) == facts


def test_a_driver_that_dies_right_after_its_last_commit_is_not_repeated(path: Path) -> None:
    subject = harness(path)
    operation = subject.admitted(subject.asked(ACTION))
    last = operation.process.parameters["indices"]
    operation.process.parameters["indices"] = last[-1:]  # type: ignore[index]

    with pytest.raises(Killed):
        execute_here(operation, "optimized", die)
    version = lance_tables.latest(path)

    verdict = subject.verdict(operation, {})
    assert (verdict.finding, verdict.numbers["versions"]) == (Finding.DONE, [version])
    assert subject.execute(operation) == {"optimized": {}}
    assert lance_tables.latest(path) == version


def test_a_job_that_must_stop_commits_nothing(path: Path) -> None:
    subject, version = harness(path), lance_tables.latest(path)
    operation = subject.admitted(subject.asked(ACTION))
    record = Interruptions()
    record.hooks["optimising"] = lambda: setattr(record, "reason", "its lease has run out")
    session: Any = None

    with pytest.raises(JobCanceled):
        job_called(operation.process.job)(Job(session, dict(operation.process.parameters), record=record))

    assert lance_tables.latest(path) == version


HARMLESS: dict[str, Callable[[Path], Any]] = {
    "append": lambda path: lance_tables.append_vectors(path, 5000),
    "delete": lambda path: lance_tables.delete(path, "id % 7 = 0"),
    "update": lambda path: lance_tables.update(path, "id % 7 = 0"),
}
CONFLICTING: dict[str, Callable[[Path], Any]] = {
    "overwrite": lambda path: lance.write_dataset(lance_tables.with_vectors(0, 50), str(path), mode="overwrite"),
    "compaction": lambda path: lance.dataset(str(path)).optimize.compact_files(),
    "optimising": lambda path: lance.dataset(str(path)).optimize.optimize_indices(),
    "drop": lambda path: lance.dataset(str(path)).drop_index("id_idx"),
}


def between(path: Path, write: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer commits after our last check, while Lance optimises a version that it has read before."""
    from lakehand.jobs.lance import datasets

    real, left = datasets.check_commit, [write]

    def check_and_write(job: Job, source: datasets.Source) -> None:
        real(job, source)
        while left:
            left.pop()(path)

    monkeypatch.setattr(datasets, "check_commit", check_and_write)


@pytest.mark.parametrize("write", HARMLESS)
def test_a_writer_in_the_middle_is_kept_and_does_not_disturb(
    path: Path, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = harness(path)
    operation = subject.admitted(subject.asked(ACTION))
    between(path, HARMLESS[write], monkeypatch)

    result = subject.execute(operation)

    assert subject.settled(operation, result).status is Status.SUCCEEDED
    expected = lance_tables.facts(path)
    subject.finish(subject.asked(ACTION))
    assert unindexed(path) == dict.fromkeys(NAMES, 0)
    assert lance_tables.facts(path) == expected
    assert answers(path) == scanned(path)


def scanned(path: Path) -> list[list[int]]:
    """The answers, from a copy that has no index."""
    copy = path.parent / "copy"
    lance.write_dataset(lance.dataset(str(path)).to_table(), str(copy))
    lance.dataset(str(copy)).create_scalar_index("note", "INVERTED")  # a search of text needs one
    return answers(copy)


@pytest.mark.parametrize("write", CONFLICTING)
def test_a_writer_that_is_first_wins_and_we_plan_anew(path: Path, write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = harness(path)
    operation = subject.admitted(subject.asked(ACTION))
    between(path, CONFLICTING[write], monkeypatch)

    with pytest.raises(OSError, match=r"(?i)conflict|incompatible") as caught:
        subject.execute(operation)

    assert subject.failure(operation, caught.value).reason == "write-conflict"
    facts = lance_tables.facts(path)
    subject.settled(operation, subject.execute(subject.admitted(operation)))
    assert lance_tables.facts(path) == facts
    assert set(unindexed(path).values()) <= {0}


def test_an_index_that_somebody_dropped_is_not_made_again(path: Path) -> None:
    subject = harness(path)
    operation = subject.admitted(subject.asked(ACTION))
    lance.dataset(str(path)).drop_index("id_idx")

    ended = subject.settled(operation, subject.execute(operation))

    assert (ended.status, list(unindexed(path))) == (Status.SUCCEEDED, NAMES[1:])


@pytest.mark.parametrize("wrong", [None, "id_idx", [{}], ["id_idx"]])
def test_a_job_that_does_not_know_which_indices_does_nothing(path: Path, wrong: Any) -> None:
    subject, version = harness(path), lance_tables.latest(path)
    operation = subject.admitted(subject.asked(ACTION))
    operation.process.parameters["indices"] = wrong  # type: ignore[index]

    with pytest.raises(UnsafeRequest) as caught:
        subject.execute(operation)

    assert (lance_tables.latest(path), refused(subject, operation, caught.value)) == (version, "refused")


def refused(subject: PluginHarness, operation: Any, error: Exception) -> str:
    return subject.failure(operation, error).reason
