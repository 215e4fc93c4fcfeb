# SPDX-License-Identifier: Apache-2.0
"""Writers that commit while a compaction runs, in both orders: every row is right, and nobody waits for us."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.lance.commits import IndicesChanged
from lakehand.spi import Finding, Remedy, Skip
from tests import lance_tables
from tests.formats.lance.runtime import harness
from tests.jobs.lance.meddling import execute
from tests.jobs.lance.test_compact import answers, make_indices

pytestmark = pytest.mark.spark

Write = Callable[[Path], Any]
HARMLESS: dict[str, Write] = {"append": lambda path: lance_tables.append(path, 5000)}
CONFLICTING: dict[str, Write] = {
    "delete": lambda path: lance_tables.delete(path, "id % 7 = 0"),
    "update": lambda path: lance_tables.update(path, "id % 7 = 0"),
    "overwrite": lambda path: lance_tables.overwrite(path, 9000, 500),
    "index": lambda path: lance.dataset(str(path)).create_scalar_index("id", "BTREE"),
    "compaction": lambda path: lance.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=300),
}


@pytest.mark.parametrize("is_indexed", [False, True])
def test_an_append_in_the_middle_is_kept_and_does_not_disturb(
    spark: SparkSession, tmp_path: Path, is_indexed: bool
) -> None:
    path, twin = tables(tmp_path, is_indexed)
    subject = harness(path, session=spark)
    operation = subject.admitted(subject.asked("compact"))

    result = execute(subject, operation, "committing", lambda: HARMLESS["append"](path))

    HARMLESS["append"](twin)
    assert lance_tables.facts(path) == lance_tables.facts(twin)
    assert sorted(lance_tables.fragments(path)) == [10, 120]
    assert subject.settled(operation, result).result["changed"] is True
    assert answers(path) == answers(twin)


@pytest.mark.parametrize("write", CONFLICTING)
def test_a_writer_that_is_first_wins_and_we_plan_anew(spark: SparkSession, tmp_path: Path, write: str) -> None:
    path, twin = tables(tmp_path)
    subject = harness(path, session=spark)
    operation = subject.admitted(subject.asked("compact"))

    with pytest.raises(OSError, match=r"(?i)conflict|incompatible") as caught:
        execute(subject, operation, "committing", lambda: CONFLICTING[write](path))

    CONFLICTING[write](twin)
    assert lance_tables.facts(path) == lance_tables.facts(twin)
    failure = subject.failure(operation, caught.value)
    assert (failure.reason, failure.remedy, failure.delay is not None) == ("write-conflict", Remedy.RETRY, True)
    assert subject.verdict(operation, {"causes": ["OSError"]}).finding is Finding.NOT_DONE
    subject.finish(operation)
    assert lance_tables.facts(path) == lance_tables.facts(twin)
    assert len(lance_tables.fragments(path)) <= 2


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_delete_in_a_few_fragments_costs_only_their_part_of_the_work(
    spark: SparkSession, tmp_path: Path, is_indexed: bool
) -> None:
    path, twin = tables(tmp_path, is_indexed, fragments=100)
    subject = harness(path, session=spark)
    operation = subject.admitted(subject.asked("compact"))

    result = execute(subject, operation, "committing", lambda: lance_tables.delete(path, "id in (1, 2, 11)"))

    lance_tables.delete(twin, "id in (1, 2, 11)")
    assert (lance_tables.facts(path), answers(path)) == (lance_tables.facts(twin), answers(twin))
    assert (result["tasks"], result["committed_tasks"]) == (3, 2)
    assert subject.settled(operation, result).result["changed"] is True
    assert len(lance_tables.fragments(path)) == 32
    subject.serve("compact")
    assert len(lance_tables.fragments(path)) == 3
    assert (lance_tables.facts(path), answers(path)) == (lance_tables.facts(twin), answers(twin))
    assert isinstance(subject.wants("compact"), Skip)


def test_somebody_who_defers_the_remapping_of_indices_meanwhile_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    path, twin = tables(tmp_path, is_indexed=True)
    subject = harness(path, session=spark)
    operation = subject.admitted(subject.asked("compact"))

    def defer() -> None:
        lance_tables.append(path, 5000)
        lance.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=20, defer_index_remap=True)

    with pytest.raises(IndicesChanged) as caught:
        execute(subject, operation, "committing", defer)

    lance_tables.append(twin, 5000)
    assert subject.failure(operation, caught.value).reason == "write-conflict"
    subject.execute(operation)
    assert (lance_tables.facts(path), answers(path)) == (lance_tables.facts(twin), answers(twin))


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("write", ["append", "delete", "update"])
def test_a_writer_that_began_before_our_commit_and_ends_after_it_succeeds(
    spark: SparkSession, tmp_path: Path, write: str, is_indexed: bool
) -> None:
    path, twin = tables(tmp_path, is_indexed)
    writers = [lance.dataset(str(path)), lance.dataset(str(twin))]

    harness(path, session=spark).serve("compact")

    for writer in writers:
        write_with(writer, write)
    assert lance_tables.facts(path) == lance_tables.facts(twin)
    assert answers(path) == answers(twin)


def tables(folder: Path, is_indexed: bool = False, fragments: int = 12) -> tuple[Path, Path]:
    """A table, and one with the same rows that is written to alike and never compacted."""
    made = [lance_tables.make_table(folder / name, fragments=fragments) for name in ("ours", "twin")]
    for path in made if is_indexed else ():
        make_indices(path)
    return made[0], made[1]


def write_with(dataset: Any, write: str) -> None:
    if write == "append":
        dataset.insert(lance_tables.rows(5000, 10))
    elif write == "delete":
        dataset.delete("id % 7 = 0")
    else:
        dataset.update({"note": "'changed'"}, where="id % 7 = 0")
