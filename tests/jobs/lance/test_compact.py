# SPDX-License-Identifier: Apache-2.0
"""Compaction of real Lance tables on Spark's executors: same rows, same answers, once, and then no more."""

import pickle
import subprocess
import sys
from pathlib import Path

import lance
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

from lakehand.jobs.job import JobCanceled
from lakehand.jobs.lance.commits import executor_function
from lakehand.spi import Finding, Skip
from tests import lance_tables
from tests.formats.lance.runtime import harness
from tests.jobs.lance.meddling import execute, seen_tasks
from tests.kit.interruptions import Interruptions, Killed, die, run_job

pytestmark = pytest.mark.spark


def test_a_hundred_small_fragments_with_deleted_rows_become_few(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lance_tables.make_table(tmp_path / "it's a table #1 %20", fragments=100)
    lance_tables.delete(path, "id % 9 = 0")
    subject, before, tasks = harness(path, session=spark), lance_tables.facts(path), seen_tasks(monkeypatch)

    done = subject.serve("compact")

    assert lance_tables.facts(path) == before
    assert lance_tables.fragments(path) == [302, 586]
    assert tasks == [2], "each task of Lance's is a task of Spark's"
    assert done.process.reason.startswith("12 of 100 fragments have more than 10 % of their rows deleted (24 rows)")
    assert done.reason == "100 fragments became 2 in version 102: 2 fragments now"
    assert (done.result["deleted_rows_before"], done.result["deleted_rows_after"]) == (112, 0)
    assert lance_tables.tags(path) == {102: done.tag}
    assert isinstance(skip := subject.wants("compact"), Skip)
    assert skip.reason.startswith("0 of 2 fragments can be merged: 10 make it worth it")


def test_stable_row_ids_stay(spark: SparkSession, tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12, enable_stable_row_ids=True)
    lance_tables.delete(path, "id % 9 = 0")
    lance_tables.update(path, "id % 5 = 1")
    before = numbered(path)

    harness(path, session=spark).serve("compact")

    assert numbered(path) == before
    assert len(lance_tables.fragments(path)) == 1


@pytest.mark.parametrize("is_stable", [False, True])
def test_indices_answer_as_before_and_are_still_used(spark: SparkSession, tmp_path: Path, is_stable: bool) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=20, enable_stable_row_ids=is_stable)
    make_indices(path)
    lance_tables.append(path, 1000)
    lance_tables.append(path, 2000)
    lance_tables.delete(path, "id % 9 = 0")
    subject, before, facts = harness(path, session=spark), answers(path), lance_tables.facts(path)

    done = subject.serve("compact")

    assert (answers(path), lance_tables.facts(path)) == (before, facts)
    assert "ScalarIndexQuery" in lance.dataset(str(path)).scanner(filter="id = 5").explain_plan()
    assert done.reason.endswith("2 fragments now"), "indexed and unindexed fragments are not mixed"
    assert isinstance(subject.wants("compact"), Skip)


def test_a_table_whose_remapping_of_indices_was_deferred_keeps_its_answers(spark: SparkSession, tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=40)
    make_indices(path)
    lance.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=40, defer_index_remap=True)
    for number in range(4):
        lance_tables.append(path, 1000 + number * 10)
    before, facts = answers(path), lance_tables.facts(path)

    harness(path, session=spark).serve("compact")

    assert (answers(path), lance_tables.facts(path)) == (before, facts)


def test_a_run_takes_no_more_than_its_limit_and_the_next_one_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=100)
    subject = harness(path, {"lance.compact.target-rows": "300", "lance.compact.max-bytes": "1"}, session=spark)
    before, tasks = lance_tables.facts(path), seen_tasks(monkeypatch)

    subject.serve("compact")
    assert len(lance_tables.fragments(path)) == 71
    for _ in range(2):
        subject.serve("compact")

    assert tasks == [1, 1, 1]
    assert isinstance(subject.wants("compact"), Skip)
    assert lance_tables.facts(path) == before


def test_the_decision_and_the_job_mean_the_same_fragments(spark: SparkSession, tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance_tables.append(path, 1000, 240)
    lance_tables.append(path, 2000, 100)
    lance_tables.append(path, 3000, 250)
    lance_tables.delete(path, "id >= 3000 and id < 3100")
    subject = harness(path, session=spark)
    assert "14 of 15 fragments to rewrite" in subject.wants("compact").reason

    assert subject.serve("compact").result["fragments_removed"] == 14


def test_what_runs_on_an_executor_needs_nothing_of_ours(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=3)
    dataset = lance.dataset(str(path))
    [task] = lance.optimize.Compaction.plan(dataset, {}).tasks
    pickled = CloudPickleSerializer().dumps(executor_function(str(path), {}))  # type: ignore[no-untyped-call]
    (tmp_path / "function").write_bytes(pickled)
    (tmp_path / "task").write_bytes(pickle.dumps(task))
    program = (
        "import pickle, sys; sys.modules['lakehand'] = None; from pathlib import Path; "
        "from pyspark import cloudpickle; "
        f"folder = Path({str(tmp_path)!r}); execute = cloudpickle.loads((folder / 'function').read_bytes()); "
        "assert 'lance' not in sys.modules, 'the daemon would have it'; "
        "result = pickle.loads(execute((folder / 'task').read_bytes())); print(result.metrics.fragments_removed)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.stdout.strip() == "3", done.stderr


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_driver_that_dies_before_the_commit_has_done_nothing(
    spark: SparkSession, tmp_path: Path, is_indexed: bool
) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    if is_indexed:
        make_indices(path)
    subject, before = harness(path, session=spark), lance_tables.facts(path)
    operation = subject.admitted(subject.asked("compact"))

    with pytest.raises(Killed):
        execute(subject, operation, "committing", die)

    assert subject.verdict(operation, {}).finding is Finding.NOT_DONE
    assert len(lance_tables.fragments(path)) == 12
    assert subject.finish(operation).result["changed"] is True
    assert lance_tables.facts(path) == before


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_driver_that_dies_right_after_the_commit_is_not_repeated(
    spark: SparkSession, tmp_path: Path, is_indexed: bool
) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    if is_indexed:
        make_indices(path)
    subject, before = harness(path, session=spark), lance_tables.facts(path)
    operation = subject.admitted(subject.asked("compact"))
    with pytest.raises(Killed):
        execute(subject, operation, "version", die)
    version = lance_tables.latest(path)

    assert subject.verdict(operation, {}).finding is Finding.DONE
    again = subject.execute(operation)

    assert (again.get("already_done"), again.get("tasks")) == ((None, 0) if is_indexed else (True, None))
    assert subject.verdict(operation, again).finding is Finding.DONE
    assert (lance_tables.latest(path), lance_tables.facts(path)) == (version, before)


def test_a_job_that_must_stop_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    subject = harness(path, session=spark)
    operation = subject.admitted(subject.asked("compact"))
    record = Interruptions()
    record.hooks["rewriting 12 fragments in 1 tasks"] = lambda: setattr(record, "reason", "canceled")

    with pytest.raises(JobCanceled):
        run_job(spark, operation.process.job, operation.process.parameters, record)

    assert lance_tables.latest(path) == 12


def make_indices(path: Path) -> None:
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")
    lance.dataset(str(path)).create_scalar_index("note", "INVERTED")


def answers(path: Path) -> list[list[int]]:
    """What queries over the indices find."""
    dataset = lance.dataset(str(path))
    filters = ("id = 5", "id = 9", "id = 1001", "id >= 50 and id < 80", "id = 2005")
    found = [dataset.to_table(filter=text, columns=["id"]) for text in filters]
    if any(index.index_type == "Inverted" for index in dataset.describe_indices()):
        found.append(dataset.to_table(full_text_query="3", columns=["id"]))
    return [sorted(table["id"].to_pylist()) for table in found]


def numbered(path: Path) -> list[tuple[int, int]]:
    table = lance.dataset(str(path)).to_table(columns=["id"], with_row_id=True)
    return sorted((row["id"], row["_rowid"]) for row in table.to_pylist())
