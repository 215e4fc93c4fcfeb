# SPDX-License-Identifier: Apache-2.0
"""Which rows of an Iceberg table grow old, when they go, when never, and what shows that they have gone."""

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.iceberg import IcebergFormat, IcebergProcessFactory
from lakehand.formats.iceberg.manifests import DATA, ContentFile, Manifest
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import Action, Drop, Failure, Finding, Json, Operation, Skip, TableProcess, Verdict, amount
from tests.formats.iceberg.made import MB, NOON, MadeRuntime, WrittenTable, ago, branch, commit, line, snapshot
from tests.formats.iceberg.test_decisions import operation
from tests.kit.sentences import Sentences

EXPIRE = Action("expire-data")
FACTORY = IcebergProcessFactory()
EPOCH = date(1970, 1, 1)
FIRST = date(2026, 10, 16)  # thirty days before noon: rows before it go
AGED = {"expire_data__column": "at", "expire_data__max_age": "30d"}


def moment(days_ago: float) -> datetime:
    return NOON - timedelta(days=days_ago)


def file(value: Any, *, size: int = MB, spec: int = 0) -> ContentFile:
    return ContentFile(f"/t/data/{value}-{size}", size, 100, (spec, value), 1, DATA, False, None)


def table(*files: ContentFile, transform: str = "day", type: str = "timestamptz", **more: Any) -> IcebergSnapshot:
    """Partitioned by a transform of ``at``."""
    given: dict[str, Any] = {"commits": line(60, 40, 20), **more}
    made = snapshot(files=files, manifests=[Manifest("/t/m", 1, 0, False, 1)], partitioned=[("at", transform)], **given)
    made.metadata["schemas"][0]["fields"][0]["type"] = type
    return made


def days(*spans: int, size: int = MB) -> list[ContentFile]:
    """Files of days so long before the first that is kept."""
    return [file(FIRST - timedelta(days=span), size=size) for span in spans]


def decide(made: IcebergSnapshot, **settings: str) -> TableProcess | Skip:
    return FACTORY.trigger(MadeRuntime(made, **{**AGED, **settings}), EXPIRE)


def wanted(made: IcebergSnapshot, **settings: str) -> str:
    answer = decide(made, **settings)
    assert isinstance(answer, TableProcess), answer
    return answer.reason


def skipped(made: IcebergSnapshot, **settings: str) -> str:
    answer = decide(made, **settings)
    assert isinstance(answer, Skip), answer
    return answer.reason


def admit(made: IcebergSnapshot, request: Operation, **settings: str) -> Any:
    return FACTORY.admit(MadeRuntime(made, **{**AGED, **settings}), request)


def cutoff(answer: Any) -> str:
    """As the job will have it."""
    assert isinstance(answer, TableProcess), answer
    stored = answer.parameters["cutoff"]
    assert isinstance(stored, int)
    return datetime.fromtimestamp(stored / 1000, timezone.utc).isoformat()


def test_whole_days_past_the_age_go_and_the_day_of_the_age_stays(sentences: Sentences) -> None:
    made = table(*days(2, 1, 0, -1, -2, -3), file(None))
    found = {"files": 2, "size": "2.0 MB", "every": 7, "bytes": "7.0 MB", "column": "at", "day": "2026-10-16"}
    sentences.check("rows of whole files are old", wanted(made), **found, age="30d", silent=1)

    answer = admit(made, operation(EXPIRE))

    assert cutoff(answer) == "2026-10-16T00:00:00+00:00"
    assert answer.job == "iceberg.expire_data"
    assert answer.parameters["column"] == "at"


def test_nothing_is_old_until_a_whole_day_is(sentences: Sentences) -> None:
    found = {"every": 2, "bytes": "2.0 MB", "column": "at", "day": "2026-10-16"}
    sentences.check("no row is old", skipped(table(*days(0, -1))), **found, age="30d")


@pytest.mark.parametrize(
    ("missing", "key"),
    [("expire_data__column", "iceberg.expire-data.column"), ("expire_data__max_age", "iceberg.expire-data.max-age")],
)
def test_without_a_column_and_an_age_nothing_is_deleted_for_anybody(
    missing: str, key: str, sentences: Sentences
) -> None:
    made, settings = table(*days(3, 2, 1, -1)), {name: value for name, value in AGED.items() if name != missing}
    runtime = MadeRuntime(made, **settings)
    answer = FACTORY.trigger(runtime, EXPIRE)
    assert isinstance(answer, Skip)
    sentences.check("a setting without which no row is deleted", answer.reason, key=key)

    by_person = operation(EXPIRE, origin="api", options={"max-age": "30d"}, confirm=True)
    refused = FACTORY.admit(runtime, by_person)
    assert isinstance(refused, Failure)
    assert key in refused.message


@pytest.mark.parametrize(
    ("type", "said"),
    [("long", "long"), ("string", "string"), ("timestamp_ns", "timestamp_ns"), ("timestamptz_ns", "timestamptz_ns"),
     ("time", "time"), ("decimal(9, 2)", "decimal(9, 2)"), ({"type": "struct", "fields": []}, "a nested type")],
)  # fmt: skip
def test_rows_do_not_grow_old_by_other_types(type: Any, said: str, sentences: Sentences) -> None:
    made = table(*days(3, -1), type=type)
    sentences.check("a type that rows do not grow old by", skipped(made), column="at", type=said)
    assert isinstance(admit(made, operation(EXPIRE, origin="api", confirm=True)), Failure)


@pytest.mark.parametrize("column", ["At", "place.at", "gone"])
def test_the_column_is_named_as_the_schema_has_it_at_its_top(column: str, sentences: Sentences) -> None:
    reason = skipped(table(*days(3, -1)), expire_data__column=column)
    sentences.check("no such column", reason, key="iceberg.expire-data.column", column=f"'{column}'")


@pytest.mark.parametrize(("age", "first"), [("1d", "2026-11-08"), ("0s", "2026-11-08"), ("9d", "2026-11-06")])
def test_no_setting_is_below_the_floor(age: str, first: str) -> None:
    made = table(*days(40, -30), *days(-30, -30, -30))
    assert cutoff(admit(made, operation(EXPIRE), expire_data__max_age=age)).startswith(first)


def test_a_request_keeps_longer_and_never_shorter() -> None:
    made = table(*days(3, 2, 1, -1))
    longer = operation(EXPIRE, origin="api", options={"max-age": "60d"})
    shorter = operation(EXPIRE, origin="api", options={"max-age": "8d"})
    assert cutoff(admit(made, longer)).startswith("2026-09-16")
    assert cutoff(admit(made, shorter)).startswith("2026-10-16")
    refused = admit(made, operation(EXPIRE, origin="api", options={"column": "other"}))
    assert isinstance(refused, Failure)


@pytest.mark.parametrize(("type", "first"), [("timestamptz", "10-16"), ("timestamp", "10-15"), ("date", "10-15")])
def test_where_no_zone_is_known_rows_stay_for_the_longest_of_a_day(type: str, first: str) -> None:
    """732 hours before noon it was midnight in UTC, and still noon where the day begins last."""
    made = table(*days(3, 2, -1, -2, -3, -4), type=type)
    answer = admit(made, operation(EXPIRE), expire_data__max_age="732h")
    assert cutoff(answer) == f"2026-{first}T00:00:00+00:00"


def test_a_later_attempt_deletes_nothing_younger_than_the_first_was_to() -> None:
    made = table(*days(3, 2, 1, -1, -2, -3))
    first = admit(made, operation(EXPIRE))
    later = replace(operation(EXPIRE), process=first)
    runtime = MadeRuntime(made, **AGED)
    runtime.now = NOON + timedelta(days=9)
    assert cutoff(FACTORY.admit(runtime, later)) == cutoff(first)
    assert cutoff(admit(made, later, expire_data__max_age="31d")).startswith("2026-10-15")


@pytest.mark.parametrize(
    ("transform", "old", "young", "first"),
    [
        ("hour", (FIRST - EPOCH).days * 24 - 1, (FIRST - EPOCH).days * 24, "2026-10-16"),
        ("day", (FIRST - EPOCH).days - 1, (FIRST - EPOCH).days, "2026-10-16"),
        ("identity", FIRST - timedelta(days=1), FIRST, "2026-10-16"),
        ("identity", moment(30.6), moment(30.5), "2026-10-16"),
        ("month", 56 * 12 + 8, 56 * 12 + 9, "2026-10-01"),
        ("year", 55, 56, "2026-01-01"),
    ],
)
def test_whole_partitions_go_and_no_file_is_rewritten_for_a_part_of_one(
    transform: str, old: Any, young: Any, first: str, sentences: Sentences
) -> None:
    made = table(file(old), file(young), file(young), transform=transform)
    found = {"files": 1, "size": "1.0 MB", "every": 3, "bytes": "3.0 MB", "column": "at", "day": first}
    sentences.check("rows of whole partitions are old", wanted(made), **found, age="30d")
    assert cutoff(admit(made, operation(EXPIRE))).startswith(first)


@pytest.mark.parametrize("value", [10**9, "no day", -(10**9)])
def test_a_partition_of_no_calendar_is_left_alone(value: Any) -> None:
    made = table(file(value), file(56 * 12 + 10), transform="month")
    assert "1 files do not say" in skipped(made)


def test_more_than_half_of_a_table_waits_for_a_person(sentences: Sentences) -> None:
    made = table(*days(3, 2, 1, -1, -2))
    found = {"files": 3, "size": "3.0 MB", "every": 5, "bytes": "5.0 MB", "column": "at", "day": "2026-10-16"}
    sentences.check("most rows are old", skipped(made), **found, age="30d", share="50%")
    assert isinstance(admit(made, operation(EXPIRE)), Drop)
    assert isinstance(admit(made, operation(EXPIRE, origin="api", dry_run=True)), TableProcess)
    confirmed = admit(made, operation(EXPIRE, origin="api", confirm=True))
    assert confirmed.parameters["confirm"] is True
    assert admit(made, operation(EXPIRE, origin="api")).parameters["confirm"] is False, "the job will refuse it"


def test_it_leaves_room_for_writers_as_a_rewrite_does() -> None:
    made = table(*days(1, -1, -2), commits=[commit(1, ago(minutes=5))])
    waiting = admit(made, operation(EXPIRE), quiet_period="10m")
    assert isinstance(waiting, Skip)
    assert isinstance(admit(made, operation(EXPIRE), quiet_period="1m"), TableProcess)


def test_only_who_names_the_action_gets_it() -> None:
    assert EXPIRE in FACTORY.optional_actions()
    assert EXPIRE in FACTORY.dry_run_actions()


def rows_of(*moments: datetime | None) -> Any:
    import pyarrow as pa

    return pa.table(
        {"id": pa.array(range(len(moments)), pa.int64()), "at": pa.array(moments, pa.timestamp("us", "UTC"))}
    )


def written(folder: Path, *files: Any) -> IcebergSnapshot:
    """A table without partitions, with a file for each."""
    made = WrittenTable(folder=folder, make=lambda number: files[number])
    for _ in files[1:]:
        made.commit()
    found = IcebergFormat().inspect(made.reference)
    for one in found.metadata["snapshots"]:
        one["timestamp-ms"] = ago(days=5)
    return found


@pytest.fixture
def mixed(tmp_path: Path) -> IcebergSnapshot:
    """One file with an old and a young row, and three with young ones."""
    young = rows_of(moment(2), moment(1))
    return written(tmp_path / "t", rows_of(moment(33), moment(1)), young, young, young)


def test_a_file_with_younger_rows_waits_until_its_oldest_is_long_past_its_age(
    mixed: IcebergSnapshot, sentences: Sentences
) -> None:
    found = {"every": 4, "column": "at", "day": "2026-10-16", "mixed": 1, "patience": "7d"}
    sentences.check("a rewrite is not worth it yet", skipped(mixed), **found, age="30d", **sizes(mixed))

    process = decide(mixed, expire_data__rewrite_after="2d")

    assert isinstance(process, TableProcess)
    some = {"every": 4, "column": "at", "day": "2026-10-16", "mixed": 1}
    sentences.check("some rows of a file are old", process.reason, **some, age="30d", **sizes(mixed))
    assert process.parameters["estimated_bytes"] == max(one.size for one in mixed.data_files)


def sizes(made: IcebergSnapshot) -> dict[str, str]:
    mixed = [file.size for file in made.data_files]
    return {"size": amount(max(mixed)), "bytes": amount(sum(mixed))}


def test_files_that_go_as_a_whole_are_worth_a_rewrite_of_as_many_bytes(tmp_path: Path) -> None:
    young, old = rows_of(moment(2), moment(1)), rows_of(moment(32), moment(31))
    both = rows_of(moment(31), moment(1))
    assert isinstance(decide(written(tmp_path / "one", old, young, young, young)), TableProcess)
    assert isinstance(decide(written(tmp_path / "equal", old, both, young, young)), TableProcess)
    assert isinstance(decide(written(tmp_path / "more", old, both, both, young)), Skip)


def test_rows_without_a_value_never_make_a_file_old(tmp_path: Path) -> None:
    young = rows_of(moment(2), moment(1))
    made = written(tmp_path / "t", rows_of(moment(32), None), rows_of(None, None), young, young)
    reason = skipped(made)
    assert reason.startswith("0 files with 0 B of 4 files")
    assert "1 files do not say" in reason


def test_files_of_an_older_partition_spec_are_known_by_their_bounds(tmp_path: Path) -> None:
    from pyiceberg.transforms import IdentityTransform

    old, young = rows_of(moment(33), moment(32)), rows_of(moment(2), moment(2))
    files = [old, young, young, young, rows_of(moment(40), moment(40))]
    made = WrittenTable(folder=tmp_path / "t", make=lambda number: files[number])
    with made.table.update_spec() as update:
        update.add_field("at", IdentityTransform(), "moment")
    for _ in files[1:]:
        made.commit()
    found = IcebergFormat().inspect(made.reference)
    for one in found.metadata["snapshots"]:
        one["timestamp-ms"] = ago(days=5)

    assert len({manifest.spec for manifest in found.manifests}) == 2
    assert wanted(found).startswith("2 files with")


def verdict(made: IcebergSnapshot, *, day: date = FIRST, **result: Json) -> Verdict:
    stored = int(datetime(day.year, day.month, day.day, tzinfo=timezone.utc).timestamp() * 1000)
    parameters: dict[str, Json] = {"operation_tag": "7-x", "column": "at", "cutoff": stored}
    process = TableProcess(action=EXPIRE, job="iceberg.expire_data", parameters=parameters)
    return FACTORY.verify(MadeRuntime(made), process, result)


def ours(number: int, **summary: str) -> dict[str, Any]:
    given = {"operation": "delete", "deleted_records": "200", "deleted_data_files": "2", **summary}
    return commit(number, ago(hours=1), parent=number - 1, **given)


def with_tag(made: dict[str, Any]) -> dict[str, Any]:
    made["summary"]["lakehand-operation"] = "7-x"
    return made


def test_the_tagged_snapshot_shows_that_the_rows_have_gone(sentences: Sentences) -> None:
    made = table(*days(-1), commits=[*line(60, 40), with_tag(ours(3))])
    found = verdict(made)
    assert found.finding is Finding.DONE
    assert (found.numbers["deleted_rows"], found.numbers["removed_files"]) == (200, 2)
    assert found.numbers["bytes_rewritten"] == 0
    sentences.check("old rows were deleted", found.reason, rows=200, day="2026-10-16", snapshot=3)


def test_rows_that_were_written_again_do_not_count_as_deleted() -> None:
    made = table(*days(-1), commits=[*line(60, 40), with_tag(ours(3, operation="overwrite", added_records="150"))])
    assert verdict(made).numbers["deleted_rows"] == 50


def test_branches_and_tags_keep_what_they_have_and_the_verdict_says_so(sentences: Sentences) -> None:
    refs = {"main": branch(3), "audit": branch(2), "last year": {"snapshot-id": 1, "type": "tag"}}
    made = table(*days(-1), commits=[*line(60, 40), with_tag(ours(3))], refs=refs)
    sentences.check("branches keep old rows", verdict(made).reason, rows=200, day="2026-10-16", snapshot=3, held=2)


def test_a_commit_that_left_a_file_with_old_rows_only_is_no_success(sentences: Sentences) -> None:
    made = table(*days(1, -1), commits=[*line(60, 40), with_tag(ours(3))])
    found = verdict(made)
    assert found.finding is Finding.NOT_DONE
    sentences.check("a file with old rows was left", found.reason, files=1, day="2026-10-16", snapshot=3)


def test_old_rows_that_a_writer_adds_later_are_for_the_next_run(sentences: Sentences) -> None:
    made = table(*days(1, -1), commits=[*line(60, 40), with_tag(ours(3)), commit(4, ago(minutes=1), parent=3)])
    found = verdict(made)
    assert found.finding is Finding.DONE
    sentences.check("old rows came later", found.reason, rows=200, day="2026-10-16", snapshot=3, files=1)


def test_without_a_tagged_snapshot_nothing_is_believed_but_that_there_was_nothing() -> None:
    made = table(*days(1, -1))
    assert verdict(made, deleted_rows=500).finding is Finding.NOT_DONE
    nothing = verdict(made, deleted_rows=0)
    assert nothing.finding is Finding.DONE
    assert nothing.numbers["changed"] is False


def test_a_dry_run_tells_rows_files_and_the_newest(sentences: Sentences) -> None:
    process = TableProcess(action=EXPIRE, job="iceberg.expire_data", parameters={"dry_run": True})
    result: dict[str, Json] = {"would_delete_rows": 40, "would_delete_files": 3, "newest": "2026-10-15 23:59:59"}
    found = FACTORY.verify(MadeRuntime(table(*days(1, -1))), process, result)
    sentences.check("rows would be deleted", found.reason, rows=40, files=3, newest="2026-10-15 23:59:59")
    assert found.numbers["changed"] is False
