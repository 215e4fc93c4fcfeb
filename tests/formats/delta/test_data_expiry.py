# SPDX-License-Identifier: Apache-2.0
"""Which rows of a Delta table grow old, when they go, when never, and what shows that they have gone."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.delta.snapshot import TAG_PREFIX
from lakehand.spi import Action, Drop, Failure, Finding, Skip, TableProcess, Verdict
from tests.formats.delta.logs import MB, NOON, Json, LogTable, add, metadata, remove
from tests.kit.sentences import Sentences

FIRST = date(2026, 10, 16)  # thirty days before noon: rows before it go
AGED = {"expire_data__column": "day", "expire_data__max_age": "30d"}
BY_TIME = {**AGED, "expire_data__column": "at"}
TAG = "7-x"


def dated(path: Path, *spans: int | None, **more: Any) -> LogTable:
    """A table that is partitioned by day, with a file so many days before the first that is kept; None: without."""
    table = LogTable(path, days_ago=40, **more)
    table.commit(metadata(more.get("configuration"), partitions={"day": "date"}), days_ago=40)
    table.commit(*(day_file(span) for span in spans), days_ago=39)
    return table


def day_file(span: int | None) -> Json:
    day = "" if span is None else str(FIRST - timedelta(days=span))
    return add(f"{span}.parquet", MB, values={"day": day})


def timed(
    path: Path, *files: Json, type: str = "timestamp", configuration: Mapping[str, str] | None = None
) -> LogTable:
    """A table without partitions, with a column ``at``."""
    table, found = LogTable(path, days_ago=40), metadata(configuration)
    fields = [{"name": "at", "type": type, "nullable": True, "metadata": {}}]
    found["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    table.commit(found, days_ago=40)
    table.commit(*files, days_ago=39)
    return table


def file(
    name: str, oldest: float, newest: float, *, nulls: int = 0, size: int = MB, deleted: int | None = None
) -> Json:
    """With values of ``at`` from so many days ago to so many days ago."""
    made = add(name, size, deleted=deleted)
    bounds = [(NOON - timedelta(days=one)).isoformat(timespec="milliseconds") for one in (oldest, newest)]
    made["add"]["stats"] = json.dumps(
        {"numRecords": 100, "minValues": {"at": bounds[0]}, "maxValues": {"at": bounds[1]}, "nullCount": {"at": nulls}}
    )
    return made


def cutoff(table: LogTable, request: Mapping[str, Any] | None = None, /, **settings: str) -> str:
    answer = admit(table, request, **settings)
    assert isinstance(answer, TableProcess), answer
    stored = answer.parameters["cutoff"]
    assert isinstance(stored, int)
    return datetime.fromtimestamp(stored / 1000, timezone.utc).isoformat()


def admit(table: LogTable, request: Mapping[str, Any] | None = None, /, **settings: str) -> Any:
    """Of a person if there is a request; else what the service wants."""
    harness = table.harness(**settings)
    wanted = TableProcess(action=Action("expire-data"))
    operation = harness.stored(wanted) if request is None else harness.asked("expire-data", **request)
    return harness.factory.admit(harness.runtime(left_out=operation.id), operation)


def test_whole_days_past_the_age_go_and_the_day_of_the_age_stays(tmp_path: Path, sentences: Sentences) -> None:
    table = dated(tmp_path / "t", 2, 1, 0, -1, -2, -3, None)
    found = {"files": 2, "size": "2.0 MB", "every": 7, "bytes": "7.0 MB", "column": "day", "day": "2026-10-16"}
    wanted = table.wanted("expire-data", **AGED)
    sentences.check("rows of whole files are old", wanted.reason, **found, age="30d", silent=1)
    assert cutoff(table, **AGED) == "2026-10-16T00:00:00+00:00"
    assert wanted.job == "delta.expire_data"
    assert wanted.parameters["column"] == "day"


def test_nothing_is_old_until_a_whole_day_is(tmp_path: Path, sentences: Sentences) -> None:
    table = dated(tmp_path / "t", 0, -1)
    found = {"every": 2, "bytes": "2.0 MB", "column": "day", "day": "2026-10-16"}
    sentences.check("no row is old", table.skipped("expire-data", **AGED), **found, age="30d")
    assert isinstance(admit(table, **AGED), Drop)


@pytest.mark.parametrize("missing", AGED)
def test_without_a_column_and_an_age_nothing_is_deleted_for_anybody(
    tmp_path: Path, missing: str, sentences: Sentences
) -> None:
    table, settings = dated(tmp_path / "t", 2, -1, -2), {key: value for key, value in AGED.items() if key != missing}
    key = f"delta.{missing.replace('__', '.').replace('_', '-')}"
    sentences.check("a setting without which no row is deleted", table.skipped("expire-data", **settings), key=key)
    assert isinstance(admit(table, {"options": {"max-age": "30d"}, "confirm": True}, **settings), Failure)


@pytest.mark.parametrize(
    ("type", "said"),
    [("long", "long"), ("string", "string"), ("decimal(9,2)", "decimal(9,2)"), ({"type": "struct"}, "a nested type")],
)
def test_rows_do_not_grow_old_by_other_types(tmp_path: Path, type: Any, said: str, sentences: Sentences) -> None:
    table = timed(tmp_path / "t", type=type)
    reason = table.skipped("expire-data", **BY_TIME)
    sentences.check("a type that rows do not grow old by", reason, column="at", type=said)
    assert isinstance(admit(table, {"confirm": True}, **BY_TIME), Failure)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_rows_do_not_grow_old_by_times_among_partition_values(tmp_path: Path, kind: str, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(metadata(partitions={"at": kind}))
    sentences.check("a partition column of times", table.skipped("expire-data", **BY_TIME), column="at", type=kind)


@pytest.mark.parametrize("column", ["Day", "place.day", "gone"])
def test_the_column_is_named_as_the_schema_has_it_at_its_top(tmp_path: Path, column: str, sentences: Sentences) -> None:
    reason = dated(tmp_path / "t", 2, -1).skipped("expire-data", **{**AGED, "expire_data__column": column})
    sentences.check("no such column", reason, key="delta.expire-data.column", column=f"'{column}'")


def test_a_table_that_only_grows_loses_no_rows(tmp_path: Path, sentences: Sentences) -> None:
    table = dated(tmp_path / "t", 2, -1, -2, configuration={"appendOnly": "true"})
    reason = table.skipped("expire-data", **AGED)
    sentences.check("a table that only grows", reason, key="delta.appendOnly")
    assert isinstance(admit(table, {"confirm": True}, **AGED), Failure)


def test_a_change_feed_shows_deletions_only_if_somebody_says_that_it_may(tmp_path: Path, sentences: Sentences) -> None:
    table = dated(tmp_path / "t", 2, -1, -2, configuration={"enableChangeDataFeed": "true"})
    key = "delta.expire-data.into-change-feed"
    reason = table.skipped("expire-data", **AGED)
    sentences.check("a table with a change feed", reason, property="delta.enableChangeDataFeed", key=key)
    assert table.wanted("expire-data", **AGED, expire_data__into_change_feed="true").parameters["column"] == "day"


@pytest.mark.parametrize(("age", "first"), [("1d", "2026-11-08"), ("0s", "2026-11-08"), ("9d", "2026-11-06")])
def test_no_setting_is_below_the_floor(tmp_path: Path, age: str, first: str) -> None:
    table = dated(tmp_path / "t", 40, -30, -30)
    assert cutoff(table, {}, **{**AGED, "expire_data__max_age": age}).startswith(first)


def test_a_request_keeps_longer_and_never_shorter(tmp_path: Path) -> None:
    table = dated(tmp_path / "t", 2, -1, -2)
    assert cutoff(table, {"options": {"max-age": "60d"}}, **AGED).startswith("2026-09-16")
    assert cutoff(table, {"options": {"max-age": "8d"}}, **AGED).startswith("2026-10-16")
    assert isinstance(admit(table, {"options": {"column": "id"}}, **AGED), Failure)


@pytest.mark.parametrize(("type", "first"), [("timestamp", "10-16"), ("timestamp_ntz", "10-15"), ("date", "10-15")])
def test_where_no_zone_is_known_rows_stay_for_the_longest_of_a_day(tmp_path: Path, type: str, first: str) -> None:
    """732 hours before noon it was midnight in UTC, and still noon where the day begins last."""
    table = timed(tmp_path / "t", type=type)
    settings = {**BY_TIME, "expire_data__max_age": "732h"}
    assert cutoff(table, {}, **settings) == f"2026-{first}T00:00:00+00:00"


def test_a_later_attempt_deletes_nothing_younger_than_the_first_was_to(tmp_path: Path) -> None:
    table = dated(tmp_path / "t", 2, 1, -1, -2)
    harness = table.harness(**AGED)
    first = harness.admitted(harness.stored(TableProcess(action=Action("expire-data"))))
    harness.now = lambda: NOON + timedelta(days=9)
    again = harness.admitted(first)
    assert again.process.parameters["cutoff"] == first.process.parameters["cutoff"]
    assert again.process.parameters["before"] == first.process.parameters["before"]


def test_more_than_half_of_a_table_waits_for_a_person(tmp_path: Path, sentences: Sentences) -> None:
    table = dated(tmp_path / "t", 3, 2, 1, -1, -2)
    found = {"files": 3, "size": "3.0 MB", "every": 5, "bytes": "5.0 MB", "column": "day", "day": "2026-10-16"}
    sentences.check("most rows are old", table.skipped("expire-data", **AGED), **found, age="30d", share="50%")
    assert isinstance(admit(table, {"dry_run": True}, **AGED), TableProcess)
    assert admit(table, {"confirm": True}, **AGED).parameters["confirm"] is True
    assert admit(table, {}, **AGED).parameters["confirm"] is False, "the job will refuse it"


def test_it_leaves_room_for_writers_as_a_rewrite_does(tmp_path: Path) -> None:
    table = dated(tmp_path / "t", 1, -1, -2)
    table.commit(add("new", MB, values={"day": "2026-11-15"}), days_ago=5 / 1440)
    assert isinstance(admit(table, **AGED, quiet_period="10m"), Skip)
    assert isinstance(admit(table, **AGED, quiet_period="1m"), TableProcess)


@pytest.mark.parametrize("kept", ["commits", "checkpoint"])
def test_files_are_known_by_their_statistics_wherever_the_log_has_them(
    tmp_path: Path, kept: str, sentences: Sentences
) -> None:
    files = [file("old", 32, 31), file("edge", 33, 30.5), file("young", 2, 1), file("other", 2, 1, size=2 * MB)]
    table = timed(tmp_path / "t", *files)
    if kept == "checkpoint":
        checkpoint_all(table)
    found = {"files": 1, "size": "1.0 MB", "every": 4, "bytes": "5.0 MB", "column": "at", "day": "2026-10-16"}
    reason = table.wanted("expire-data", **BY_TIME).reason
    sentences.check("rows of some files are old", reason, **found, age="30d", mixed=1, some="1.0 MB")


def checkpoint_all(table: LogTable) -> None:
    """Of all actions, as parquet by deltalake; the commits before it are gone."""
    from deltalake import DeltaTable

    DeltaTable(str(table.path)).create_checkpoint()
    for version in range(table.version):
        table.file(version).unlink()


def test_a_file_with_younger_rows_waits_until_its_oldest_is_long_past_its_age(
    tmp_path: Path, sentences: Sentences
) -> None:
    table = timed(tmp_path / "t", file("mixed", 33, 1), file("young", 2, 1))
    found = {"every": 2, "bytes": "2.0 MB", "column": "at", "day": "2026-10-16", "mixed": 1, "some": "1.0 MB"}
    reason = table.skipped("expire-data", **BY_TIME)
    sentences.check("a rewrite is not worth it yet", reason, **found, age="30d", patience="7d")
    wanted = table.wanted("expire-data", **BY_TIME, expire_data__rewrite_after="2d")
    assert wanted.parameters["estimated_bytes"] == MB


def test_what_a_deletion_vector_hides_is_not_deleted_again(tmp_path: Path) -> None:
    """Statistics keep the bounds of the rows that are gone. No row is younger than the newest, all the same."""
    hidden = timed(tmp_path / "hidden", file("mixed", 90, 1, deleted=50), file("young", 2, 1))
    assert hidden.skipped("expire-data", **BY_TIME).startswith("0 files with 0 B of 2 files")
    whole = timed(tmp_path / "whole", file("old", 90, 80, deleted=50), file("young", 2, 1))
    assert whole.wanted("expire-data", **BY_TIME).reason.startswith("1 files")


@pytest.mark.parametrize("stats", [None, "{}", '{"maxValues": {"at": "no time"}}', '{"maxValues": 1}', "[]"])
def test_a_file_without_statistics_is_left_to_who_asks(tmp_path: Path, stats: str | None) -> None:
    silent = add("silent", MB)
    silent["add"]["stats"] = stats
    table = timed(tmp_path / "t", silent, file("young", 2, 1))
    assert "1 files do not say" in table.skipped("expire-data", **BY_TIME)
    assert isinstance(admit(table, {}, **BY_TIME), TableProcess)


def test_rows_without_a_value_never_make_a_file_old(tmp_path: Path) -> None:
    table = timed(tmp_path / "t", file("old but for one", 32, 31, nulls=1), file("young", 2, 1))
    assert table.skipped("expire-data", **BY_TIME).startswith("0 files with 0 B of 2 files")


def verdict(table: LogTable, **result: Any) -> Verdict:
    """Of an operation that was admitted at the version before the newest two."""
    parameters: Json = {"operation_tag": TAG, "before": {"version": 2}, "column": "day", "cutoff": midnight(FIRST)}
    process = TableProcess(action=Action("expire-data"), job="delta.expire_data", parameters=parameters)
    harness = table.harness(**AGED)
    return harness.verdict(replace(harness.asked("expire-data"), process=process), result)


def midnight(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=timezone.utc).timestamp() * 1000)


def deletion(*names: str, rows: int = 100) -> list[Json]:
    gone = [remove(name, days_ago=0) for name in names]
    for one in gone:
        one["remove"]["stats"] = json.dumps({"numRecords": rows})
    return gone


def test_the_tagged_commit_shows_that_the_rows_have_gone(tmp_path: Path, sentences: Sentences) -> None:
    table = dated(tmp_path / "t", 1, -1)
    table.commit(*deletion("1.parquet"), operation="DELETE", days_ago=0, userMetadata=f"{TAG_PREFIX}{TAG}")
    found = verdict(table)
    assert found.finding is Finding.DONE
    assert (found.numbers["deleted_rows"], found.numbers["files_removed"], found.numbers["versions"]) == (100, 1, [3])
    sentences.check("old rows were deleted", found.reason, rows=100, day="2026-10-16", version=3)


def test_the_rows_are_those_that_delta_counted(tmp_path: Path) -> None:
    """A file that was rewritten may have left the log without its statistics."""
    table, tagged = dated(tmp_path / "t", 1, -1), {"userMetadata": f"{TAG_PREFIX}{TAG}"}
    gone = remove("1.parquet", days_ago=0)
    table.commit(gone, operation="DELETE", days_ago=0, operationMetrics={"numDeletedRows": "40"}, **tagged)
    assert verdict(table).numbers["deleted_rows"] == 40
    table.write(table.file(3), {"commitInfo": {"timestamp": 1, "operation": "DELETE", **tagged}}, gone, days_ago=0)
    assert verdict(table, deleted_rows=30).numbers["deleted_rows"] == 30
    assert verdict(table).numbers["deleted_rows"] == 0


def test_a_commit_that_left_a_file_with_old_rows_only_is_no_success(tmp_path: Path, sentences: Sentences) -> None:
    table = dated(tmp_path / "t", 1, 2, -1)
    table.commit(*deletion("1.parquet"), operation="DELETE", days_ago=0, userMetadata=f"{TAG_PREFIX}{TAG}")
    found = verdict(table)
    assert found.finding is Finding.NOT_DONE
    sentences.check("a file with old rows was left", found.reason, files=1, day="2026-10-16", version=3)


def test_old_rows_that_a_writer_adds_later_are_for_the_next_run(tmp_path: Path, sentences: Sentences) -> None:
    table = dated(tmp_path / "t", 1, -1)
    table.commit(*deletion("1.parquet"), operation="DELETE", days_ago=0, userMetadata=f"{TAG_PREFIX}{TAG}")
    table.commit(day_file(5), days_ago=0)
    found = verdict(table)
    assert found.finding is Finding.DONE
    sentences.check("old rows came later", found.reason, rows=100, day="2026-10-16", version=3, files=1)


def test_without_a_tagged_commit_nothing_is_believed_but_that_there_was_nothing(tmp_path: Path) -> None:
    table = dated(tmp_path / "t", 1, -1)
    table.commit(*deletion("1.parquet"), operation="DELETE", days_ago=0)
    assert verdict(table, deleted_rows=100).finding is Finding.NOT_DONE
    nothing = verdict(table, nothing_to_do=True)
    assert (nothing.finding, nothing.numbers["changed"]) == (Finding.DONE, False)


def test_only_who_names_the_action_gets_it(tmp_path: Path) -> None:
    factory = dated(tmp_path / "t", 1).harness().factory
    assert Action("expire-data") in factory.optional_actions()
    assert Action("expire-data") in factory.dry_run_actions()
