# SPDX-License-Identifier: Apache-2.0
"""Which states of a table are compared around a job, and what the report says; with a table that is only numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lakehand.jobs import rows
from lakehand.jobs.checksums import Checksum
from lakehand.jobs.job import Job, Record
from lakehand.jobs.rows import Document, NotComparable, Reading, RowReader, Step, in_a_row, run_verified
from tests.kit.sentences import Sentences

Change = Callable[["Numbers"], None]


class Numbers(RowReader):
    """States are versions; each has a number of rows, and whose it is."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.versions: dict[int, int] = {1: 10}
        self.own: list[int] = []
        self.foreign = ""

    def commit(self, count: int, *, own: bool = False) -> None:
        version = max(self.versions) + 1
        self.versions[version] = count
        self.own += [version] if own else []

    def newest(self) -> str | None:
        return str(max(self.versions)) if self.versions else None

    def steps(self, result: Document) -> Sequence[Step]:
        return in_a_row(self.own)

    def is_there(self, state: str) -> bool:
        return int(state) in self.versions

    def checksum(self, state: str) -> tuple[Checksum, str]:
        raise AssertionError("rows are only counted here")

    def count(self, state: str) -> tuple[int, str]:
        if self.versions[int(state)] < 0:
            raise OSError("a data file is missing")
        return self.versions[int(state)], "metadata"

    def others(self, state: str) -> str:
        return self.foreign

    def check_others(self, before: Reading, after: Reading, result: Document) -> None:
        if before.others != after.others:
            raise NotComparable(after.others)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Numbers:
    found = Numbers(Job(session=None, parameters={}))  # type: ignore[arg-type]
    monkeypatch.setattr(rows, "reader_of", lambda job, name: found)
    return found


def report_of(table: Numbers, change: Change, *, record: Record | None = None, **asked: Any) -> Document:
    job = Job(session=None, parameters={"verify_rows": {"mode": "count", **asked}}, record=record or Record())  # type: ignore[arg-type]

    def run(_: Job) -> Document:
        change(table)
        return {"done": True}

    result = run_verified("delta.optimize", run, job)
    assert result.get("done", False) is not asked.get("only", False)
    found: Document = result["verified_rows"]
    return found


def outcome(report: Document) -> tuple[Any, ...]:
    numbers = [one and (one["state"], one["rows"]) for one in (report.get("before"), report.get("after"))]
    return (report["outcome"], *numbers)


def test_a_commit_is_compared_with_the_state_before_it(table: Numbers) -> None:
    assert outcome(report_of(table, lambda t: t.commit(10, own=True))) == ("equal", ("1", 10), ("2", 10))
    assert outcome(report_of(table, lambda t: t.commit(9, own=True)))[0] == "unequal"


def test_commits_of_a_writer_before_and_after_ours_change_nothing(table: Numbers) -> None:
    def change(t: Numbers) -> None:
        for count, own in ((15, False), (15, True), (15, True), (99, False)):
            t.commit(count, own=own)

    assert outcome(report_of(table, change)) == ("equal", ("2", 15), ("4", 15))


def test_a_wrong_commit_between_those_of_a_writer_is_found(table: Numbers) -> None:
    def change(t: Numbers) -> None:
        for count, own in ((10, True), (20, False), (19, True), (50, False), (50, True)):
            t.commit(count, own=own)

    assert outcome(report_of(table, change)) == ("unequal", ("3", 20), ("4", 19))


def test_a_job_without_a_commit_is_compared_at_the_state_of_its_start(table: Numbers) -> None:
    def lose(t: Numbers) -> None:
        t.commit(30)
        t.versions[1] = 7

    assert outcome(report_of(table, lambda t: t.commit(30))) == ("equal", ("1", 10), ("1", 10))
    table.versions = {1: 10}
    assert outcome(report_of(table, lose)) == ("unequal", ("1", 10), ("1", 7))


def test_a_file_that_is_missing_after_the_job_is_no_comparison_but_an_error(table: Numbers) -> None:
    with pytest.raises(OSError, match="data file is missing"):
        report_of(table, lambda t: t.versions.update({1: -1}))


def test_a_state_that_somebody_removed_is_not_compared(table: Numbers, sentences: Sentences) -> None:
    def change(t: Numbers) -> None:
        t.commit(20)
        t.commit(20, own=True)
        del t.versions[2]

    report = report_of(table, change)

    assert report["outcome"] == "not-compared"
    sentences.check("a state is gone", report["reason"], state=2)


def test_a_state_before_that_lost_its_files_to_somebody_is_not_compared(table: Numbers, sentences: Sentences) -> None:
    def change(t: Numbers) -> None:
        t.commit(-1)
        t.commit(20, own=True)

    sentences.check("a state lost its files", report_of(table, change)["reason"], state=2)


def test_a_commit_of_others_that_reaches_into_a_state_is_not_taken_for_a_difference(table: Numbers) -> None:
    def change(t: Numbers) -> None:
        t.versions[1], t.foreign = 11, "a write that began before"

    assert report_of(table, change)["outcome"] == "not-compared"


def test_a_table_without_a_state_has_nothing_to_compare(table: Numbers, sentences: Sentences) -> None:
    table.versions = {}

    sentences.check("no rows to compare", report_of(table, lambda t: None)["reason"])


def test_an_attempt_that_only_compares_does_not_run_the_job(table: Numbers) -> None:
    table.commit(10, own=True)

    assert outcome(report_of(table, lambda t: None, only=True)) == ("equal", ("1", 10), ("2", 10))


def test_it_takes_the_first_reading_from_the_notes_of_the_attempt_that_died(table: Numbers) -> None:
    record = Record()
    report_of(table, lambda t: None, record=record)
    table.versions[1] = 8

    found = report_of(table, lambda t: None, only=True, notes=record.notes)

    assert outcome(found) == ("unequal", ("1", 10), ("1", 8))


def test_without_those_notes_it_says_what_was_lost(table: Numbers, sentences: Sentences) -> None:
    sentences.check("the first reading is lost", report_of(table, lambda t: None, only=True)["reason"])


def test_a_repeat_of_the_whole_job_finds_the_commit_of_the_attempt_before(table: Numbers) -> None:
    table.commit(10, own=True)
    table.commit(40)

    assert outcome(report_of(table, lambda t: None)) == ("equal", ("1", 10), ("2", 10))


@pytest.mark.parametrize(("name", "parameters", "case"), [
    ("shop.plugin:run", {}, "rows of a plugin's job"), ("lance.compact", {}, "rows without Spark"),
    ("delta.vacuum", {"dry_run": True}, "rows of a dry run"),
])  # fmt: skip
def test_what_cannot_be_compared_says_why_and_runs_all_the_same(
    name: str, parameters: Document, case: str, sentences: Sentences
) -> None:
    job = Job(session=None, parameters={"verify_rows": {"mode": "count"}, **parameters})  # type: ignore[arg-type]

    result = run_verified(name, lambda _: {"ran": True}, job)

    assert result["ran"]
    assert result["verified_rows"]["outcome"] == "not-compared"
    sentences.check(case, result["verified_rows"]["reason"])


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("paimon.expire_partitions", "rows of expired partitions"),
        ("hudi.partition-ttl", "rows of old partitions"),
        ("iceberg.expire_data", "rows past their age"),
        ("delta.expire-data", "rows past their age"),
    ],
)
def test_an_action_that_takes_rows_away_by_intent_is_not_compared(name: str, case: str, sentences: Sentences) -> None:
    job = Job(session=object(), parameters={})  # type: ignore[arg-type]

    with pytest.raises(NotComparable) as refused:
        rows.reader_of(job, name)
    sentences.check(case, str(refused.value))


def test_a_job_that_nobody_asked_to_compare_runs_as_ever() -> None:
    job = Job(session=None, parameters={})  # type: ignore[arg-type]

    assert run_verified("delta.vacuum", lambda _: {"ran": True}, job) == {"ran": True}
