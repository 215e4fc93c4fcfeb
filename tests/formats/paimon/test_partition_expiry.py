# SPDX-License-Identifier: Apache-2.0
"""Which partitions are dropped: only past an age that someone set, with a floor, oldest first, a bounded number."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.spi import Finding, Operation
from lakehand.testing import PluginHarness
from tests.formats.paimon.handmade import NOON, File, HandMade, partition_of
from tests.formats.paimon.runtime import harness, skipped, wanted
from tests.kit.sentences import Sentences

ACTION = "expire-partitions"
OWN = "partition.expiration-time"
TEXT = {"p": "STRING"}


def table(folder: Path, values: Mapping[Any, int], **options: str) -> HandMade:
    """A table with so many files of 10 rows in each partition of the column ``p``; at noon of 2026-11-16."""
    own = {"write-only": "true", **{key.replace("_", "-").replace("--", "."): value for key, value in options.items()}}
    made = HandMade(folder / "t", options=own, partition_keys=["p"], types=TEXT)
    made.commit(files(values))
    return made


def files(values: Mapping[Any, int]) -> list[File]:
    return [
        File(f"{value}-{number}.parquet", partition=partition_of(value))
        for value, count in values.items()
        for number in range(count)
    ]


DAYS = {"2026-10-01": 2, "2026-10-02": 1, "2026-11-15": 3, "other": 1, None: 1}


def admitted(service: PluginHarness, **asked: Any) -> Operation:
    return service.admitted(service.asked(ACTION, **asked))


def parameters(operation: Operation) -> Any:
    return operation.process.parameters


def names(operation: Operation) -> list[str]:
    return [one["name"] for one in parameters(operation)["partitions"]]


def test_without_an_age_that_someone_set_nothing_goes_whatever_a_request_says(
    tmp_path: Path, sentences: Sentences
) -> None:
    service = harness(table(tmp_path, DAYS).root)
    never = skipped(service, ACTION)
    sentences.check("no age is set", never, option=OWN, key="paimon.expire-partitions.older-than")

    answer: Any = service.factory.admit(service.runtime(), service.asked(ACTION, options={"older-than": "30d"}))

    assert (answer.reason, answer.message) == ("refused", never)


def test_partitions_past_the_age_are_named_with_rows_and_files(tmp_path: Path, sentences: Sentences) -> None:
    service = harness(table(tmp_path, DAYS).root, expire_partitions__older_than="30d")
    found = {"old": 2, "partitions": 5, "age": "30d", "names": "p=2026-10-01, p=2026-10-02"}
    sizes = {"rows": 30, "files": 3, "size": "3.0 MB"}
    sentences.check("partitions are old, some name no time", wanted(service, ACTION), **found, **sizes, timeless=2)

    operation = admitted(service)

    first, second = parameters(operation)["partitions"]
    assert first == {"key": partition_of("2026-10-01").hex(), "name": "p=2026-10-01", "files": 2, "rows": 20}
    assert second["name"] == "p=2026-10-02"
    assert operation.process.parameters["rule"] == {"partition.expiration-strategy": "values-time"}


def test_an_unchanged_table_without_old_partitions_keeps_its_reason(tmp_path: Path, sentences: Sentences) -> None:
    service = harness(table(tmp_path, {"2026-11-15": 3, "other": 1}).root, expire_partitions__older_than="30d")
    first, second = (skipped(service, ACTION) for _ in range(2))
    assert first == second
    sentences.check("no partition is old, some name no time", first, old=0, partitions=2, age="30d", timeless=1)


AGES = {
    "own option": ({"partition__expiration_time": "30 d"}, {}, {}, "30d"),
    "own option below the floor": ({"partition__expiration_time": "1 h"}, {}, {}, "7d"),
    "property below the floor": ({}, {"expire_partitions__older_than": "1h"}, {}, "7d"),
    "the longer of both": ({"partition__expiration_time": "30 d"}, {"expire_partitions__older_than": "9d"}, {}, "30d"),
    "a longer request": ({}, {"expire_partitions__older_than": "9d"}, {"older-than": "40d"}, "40d"),
    "a shorter request": ({"partition__expiration_time": "30 d"}, {}, {"older-than": "8d"}, "30d"),
}


@pytest.mark.parametrize("case", AGES)
def test_the_longest_age_counts_and_none_is_below_the_floor(tmp_path: Path, case: str, sentences: Sentences) -> None:
    options, properties, request, age = AGES[case]
    service = harness(table(tmp_path, {"2026-01-01": 1}, **options).root, **properties)

    operation = admitted(service, options=request)

    found = {"old": 1, "partitions": 1, "age": age, "names": "p=2026-01-01", "rows": 10, "files": 1}
    sentences.check("partitions are old", operation.process.reason, **found, size="1.0 MB")
    kept = NOON.timestamp() * 1000 - parameters(operation)["cutoff"]
    assert timedelta(milliseconds=kept) - timedelta(days=int(age[:-1])) == timedelta(hours=12), "the zone is not known"


def test_a_floor_of_the_operator_keeps_more(tmp_path: Path, sentences: Sentences) -> None:
    service = harness(table(tmp_path, DAYS, partition__expiration_time="8 d").root)
    service.factory.open({"paimon.expire-partitions.older-than-floor": "400d"})
    found = {"old": 0, "partitions": 5, "age": "400d", "timeless": 2}
    sentences.check("no partition is old, some name no time", skipped(service, ACTION), **found)


def test_a_partition_is_kept_until_its_age_is_over_in_every_zone(tmp_path: Path, sentences: Sentences) -> None:
    service = harness(table(tmp_path, {"2026-11-09": 1, "2026-11-08": 1}).root, expire_partitions__older_than="7d")
    one = {"old": 1, "partitions": 2, "age": "7d", "names": "p=2026-11-08", "rows": 10, "files": 1}
    sentences.check("partitions are old", wanted(service, ACTION), **one, size="1.0 MB")
    later = replace_now(service, timedelta(hours=12, seconds=1))
    both = {"old": 2, "partitions": 2, "age": "7d", "names": "p=2026-11-08, p=2026-11-09", "rows": 20, "files": 2}
    sentences.check("partitions are old", wanted(later, ACTION), **both, size="2.0 MB")


def replace_now(service: PluginHarness, by: timedelta) -> PluginHarness:
    return replace(service, now=lambda: NOON + by)


def test_a_run_drops_a_bounded_number_and_the_oldest_first(tmp_path: Path, sentences: Sentences) -> None:
    days = {f"2026-09-{day:02}": 1 for day in range(30, 0, -1)}
    limits = {"expire_partitions__older_than": "30d", "expire_partitions__max_partitions": "4"}
    service = harness(table(tmp_path, days).root, **limits)
    named = "p=2026-09-01, p=2026-09-02, p=2026-09-03"
    found = {"old": 30, "partitions": 30, "age": "30d", "names": named, "more": 1, "rows": 40, "files": 4}
    sentences.check("more partitions are old than are named", wanted(service, ACTION), **found, size="4.0 MB")
    assert names(admitted(service)) == [f"p=2026-09-0{day}" for day in (1, 2, 3, 4)]


def test_by_update_time_the_youngest_file_of_a_partition_counts(tmp_path: Path, sentences: Sentences) -> None:
    made = table(tmp_path, {}, partition__expiration_time="30 d", partition__expiration_strategy="update-time")
    old, young = NOON - timedelta(days=40), NOON - timedelta(days=1)
    made.commit(
        [File("a", partition=partition_of("a"), created=old), File("b", partition=partition_of("b"), created=old)]
    )
    made.commit([File("c", partition=partition_of("b"), created=young)])
    service = harness(made.root)
    found = {"old": 1, "partitions": 2, "age": "30d", "names": "p=a", "rows": 10, "files": 1}
    sentences.check("partitions are old", wanted(service, ACTION), **found, size="1.0 MB")


def test_the_tables_own_formatter_and_pattern_win(tmp_path: Path) -> None:
    made = table(tmp_path, {"20260101": 1}, partition__timestamp_formatter="yyyyMMdd", partition__expiration_time="9 d")
    service = harness(made.root, expire_partitions__timestamp_formatter="yyyy")
    rule = {"partition.expiration-strategy": "values-time", "partition.timestamp-formatter": "yyyyMMdd"}
    assert admitted(service).process.parameters["rule"] == rule


@pytest.mark.parametrize(
    ("options", "keys", "case"),
    [
        ({OWN: "9 d"}, [], "no partition columns"),
        ({OWN: "9 d", "partition.expiration-strategy": "x"}, ["p"], "no such strategy"),
        ({OWN: "9 parsecs"}, ["p"], "no duration of Paimon"),
    ],
)
def test_what_cannot_expire_says_why(
    tmp_path: Path, options: dict[str, str], keys: list[str], case: str, sentences: Sentences
) -> None:
    made = HandMade(tmp_path / "t", options=options, partition_keys=keys, types=TEXT)
    made.commit(files({"2026-01-01": 1}))
    sentences.check(case, skipped(harness(made.root), ACTION))


def commit_as(made: HandMade, operation: Operation, gone: list[File], *, kind: str = "OVERWRITE") -> None:
    made.commit(deleted=gone, kind=kind, user=f"lakehand-{operation.tag}_partitions")


def prepared(folder: Path) -> tuple[HandMade, PluginHarness, Operation]:
    made = table(folder, DAYS)
    service = harness(made.root, expire_partitions__older_than="30d")
    return made, service, admitted(service)


OLD = {"2026-10-01": 2, "2026-10-02": 1}


def test_a_commit_of_ours_that_took_exactly_the_announced_ones_is_done(tmp_path: Path, sentences: Sentences) -> None:
    made, service, operation = prepared(tmp_path)
    still = {"left": 2, "announced": 2, "first": "p=2026-10-01"}
    sentences.check("partitions are still there", service.verdict(operation, {}).reason, **still)
    commit_as(made, operation, files(OLD))
    made.commit(files({"2026-10-01": 1}))  # a late writer

    verdict = service.verdict(operation, {})

    assert verdict.finding is Finding.DONE
    sentences.check("partitions are dropped", verdict.reason, snapshot=2, partitions=2, rows=30, files=3)
    assert (verdict.numbers["dropped_rows"], verdict.numbers["changed"]) == (30, True)
    assert service.admitted(operation).process == operation.process, "it runs as it was, and finds its commit"


@pytest.mark.parametrize("gone", [{"2026-10-01": 2}, {"2026-10-01": 1, "2026-10-02": 1}, {**OLD, "2026-11-15": 1}])
def test_a_commit_that_took_less_or_more_is_not_called_done(tmp_path: Path, gone: dict[Any, int]) -> None:
    made, service, operation = prepared(tmp_path)
    commit_as(made, operation, files(gone))
    assert service.verdict(operation, {}).finding is Finding.NOT_DONE


def test_partitions_that_somebody_else_dropped_leave_nothing_to_do(tmp_path: Path) -> None:
    made, service, operation = prepared(tmp_path)
    made.commit(deleted=files(OLD), kind="OVERWRITE", user="somebody")
    verdict = service.verdict(operation, {})
    assert (verdict.finding, verdict.numbers["changed"]) == (Finding.DONE, False)


def test_a_commit_that_has_expired_since_is_believed_to_the_job(tmp_path: Path) -> None:
    made, service, operation = prepared(tmp_path)
    made.commit()
    made.commit()
    for number in (1, 2):
        (made.root / "snapshot" / f"snapshot-{number}").unlink()
    assert service.verdict(operation, {"snapshots": [2]}).finding is Finding.DONE
    assert service.verdict(operation, {}).finding is Finding.NOT_DONE
