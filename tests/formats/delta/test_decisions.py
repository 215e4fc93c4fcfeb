# SPDX-License-Identifier: Apache-2.0
"""What is decided from a log, with which numbers, and when nothing is."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehand.formats.delta import DeltaProcessFactory
from lakehand.spi import Action, Drop, Failure, Invalid, Remedy, Skip, TableProcess
from tests.formats.delta.logs import MB, NOON, LogTable, add, adds, metadata, protocol, remove


def test_small_files_are_counted_as_delta_packs_them(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", [*adds(30, 10 * MB), *adds(5, 100 * MB, prefix="large")])

    wanted = table.wanted("optimize")

    assert wanted.reason == "30 of 35 files are under 96.0 MB: 300 MB in 30 files to rewrite into 3"
    assert (wanted.parameters["small_bytes"], wanted.parameters["target_bytes"]) == (96 * MB, 128 * MB)


def test_files_of_which_no_two_fit_into_one_are_left_alone(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", adds(50, 90 * MB))
    assert table.skipped("optimize") == (
        "50 of 50 files are under 96.0 MB, and no two of them would make one file; 20 would be worth it"
    )


def test_files_are_not_merged_across_partitions(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(metadata(partitions={"day": "date"}))
    table.commit(*(add(f"{n}.parquet", MB, values={"day": f"2026-11-{n % 28 + 1:02d}"}) for n in range(28)))
    assert "28 of 28 files are under 96.0 MB, and no two" in table.skipped("optimize")

    table.commit(*adds(25, MB, prefix="again", values={"day": "2026-11-07"}))
    wanted = table.wanted("optimize")
    assert "26 files to rewrite into 1" in wanted.reason
    assert wanted.parameters["partitions"] == [[["day", "date", "2026-11-07"]]]


def test_partitions_that_cannot_be_named_safely_are_not_named(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(metadata(partitions={"moment": "timestamp"}))
    table.commit(
        *adds(25, MB, prefix="a", values={"moment": "2026-11-07 00:00:00"}),
        add("b", MB, values={"moment": "2026-11-08 00:00:00"}),
    )
    assert table.wanted("optimize").parameters["partitions"] is None


def test_the_tables_own_target_size_counts_unless_ours_is_set(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", adds(30, 10 * MB), configuration={"targetFileSize": "8mb"})
    assert "0 of 30 files are under 6.0 MB" in table.skipped("optimize")
    assert table.wanted("optimize", optimize__target_file_bytes=str(64 * MB)).parameters["target_bytes"] == 64 * MB


@pytest.mark.parametrize("action", ["optimize", "z-order", "vacuum", "purge"])
def test_an_action_that_is_switched_off_is_not_run_for_anybody(tmp_path: Path, action: str) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    settings = {f"{action.replace('-', '_')}__enabled": "false"}
    off = f"delta.{action}.enabled is false (from table)"

    assert table.skipped(action, **settings) == off
    harness = table.harness(**settings)
    answer = harness.factory.admit(harness.runtime(), harness.asked(action))
    assert answer == Failure(reason="refused", message=off, remedy=Remedy.FATAL)
    ours = harness.stored(TableProcess(action=Action(action)))
    assert harness.factory.admit(harness.runtime(), ours) == Drop(reason=off)


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        (protocol(4, 7), "protocol reader 4, writer 7"),
        (protocol(3, 8), "protocol reader 3, writer 8"),
        (protocol(3, 7, ["deletionVectors", "catalogManaged"]), "may not know: catalogManaged"),
    ],
)
def test_a_table_beyond_the_engines_delta_is_never_rewritten(
    tmp_path: Path, demand: dict[str, object], message: str
) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    table.commit(demand)
    assert message in table.skipped("optimize")
    harness = table.harness()
    answer = harness.factory.admit(harness.runtime(), harness.asked("vacuum"))
    assert isinstance(answer, Failure)
    assert (answer.remedy, answer.reason) == (Remedy.FATAL, "refused")
    assert message in answer.message


def test_an_operator_who_knows_better_can_allow_a_feature(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    table.commit(protocol(3, 7, ["variantType"]))
    harness = table.harness()
    harness.factory.open({"delta.table-features": "variantType, other"})
    assert isinstance(harness.wants("optimize"), TableProcess)


def test_a_table_that_is_also_kept_as_iceberg_is_left_alone(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB), configuration={"universalFormat.enabledFormats": "iceberg"})
    assert "also kept as iceberg" in table.skipped("optimize")


def test_purge_wants_files_and_rows(tmp_path: Path) -> None:
    few = LogTable(tmp_path / "few", [add(f"{n}", MB, deleted=500) for n in range(9)])
    thin = LogTable(tmp_path / "thin", [add(f"{n}", MB, deleted=1) for n in range(50)])
    enough = LogTable(tmp_path / "enough", [*(add(f"{n}", MB, deleted=50) for n in range(10)), *adds(10, MB)])

    assert "9 of 9 files have deletion vectors: 4500 of 9000 rows" in few.skipped("purge")
    assert "(0.1%) are deleted, 50.0 MB to rewrite; 10 files and 5%" in thin.skipped("purge")
    assert enough.wanted("purge").reason == (
        "10 of 20 files have deletion vectors: 500 of 10000 rows in them (5.0%) are deleted, 10.0 MB to rewrite"
    )


def z_ordered(table: LogTable, *names: str, columns: str = '["id"]', days_ago: float = 3) -> None:
    added = [add(name, 400 * MB, days_ago=days_ago) for name in names]
    table.commit(*added, operation="OPTIMIZE", days_ago=days_ago, operationParameters={"zOrderBy": columns})


def test_what_was_z_ordered_is_found_in_the_log(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    assert table.skipped("z-order") == "delta.z-order.columns names no columns"
    z_ordered(table, "a", "b", "c")
    assert table.skipped("z-order", z_order__columns="ID").startswith("0 of 3 files with 0 B of 1.2 GB are not in")
    assert table.wanted("z-order", z_order__columns="id,v").reason.startswith("3 of 3 files"), "another order"

    table.commit(add("new", 300 * MB, days_ago=2))
    assert "1 of 4 files with 300 MB of 1.5 GB" in table.wanted("z-order", z_order__columns="id").reason


def test_what_was_z_ordered_is_remembered_when_the_log_forgets_it(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", days_ago=4)
    z_ordered(table, "a", "b", "c")
    harness = table.harness(z_order__columns="id")
    runtime = harness.runtime()
    operation = harness.asked("z-order")
    process = harness.admitted(operation).process
    tag = f"lakehand-operation={operation.tag}"
    again = [add("d", 900 * MB, days_ago=1), *(remove(name, days_ago=1) for name in "abc")]
    table.commit(*again, operation="OPTIMIZE", operationParameters={"zOrderBy": '["id"]'}, userMetadata=tag)
    assert harness.factory.verify(runtime, process, {}).numbers["changed"] is True

    table.commit(operation="WRITE", days_ago=0)
    file = table.file(2)
    file.write_text(file.read_text().replace("zOrderBy", "forgotten"))
    harness.history.clear()
    later = harness.runtime()
    later._states = runtime._states
    assert isinstance(harness.wants("z-order"), TableProcess), "without memory nobody knows"
    answer = harness.factory.trigger(later, Action("z-order"))
    assert answer.reason.startswith("0 of 1 files"), answer


@pytest.mark.parametrize(
    ("columns", "message"), [("nope", "nope, which the table does not have"), ("day", "a partition")]
)
def test_columns_that_cannot_order_files_are_refused(tmp_path: Path, columns: str, message: str) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(metadata(partitions={"day": "date"}), add("x", 900 * MB, values={"day": "2026-11-07"}))
    assert message in table.skipped("z-order", z_order__columns=columns)


def removed_files(path: Path, days_ago: float, count: int = 12) -> LogTable:
    table = LogTable(path, adds(count, MB, days_ago=40), days_ago=40)
    merged = add("merged", count * MB, days_ago=days_ago)
    table.commit(merged, *(remove(f"part-{n}.parquet", days_ago=days_ago) for n in range(count)), days_ago=days_ago)
    return table


def test_a_vacuum_waits_for_seven_days(tmp_path: Path) -> None:
    young, old = removed_files(tmp_path / "young", 6.9), removed_files(tmp_path / "old", 7.1)

    assert young.skipped("vacuum") == (
        "0 removed files with 0 B are older than 7d since the last vacuum;"
        " 12 younger ones with 12.0 MB wait, the first since 2026-11-08 14:24 UTC"
    )
    wanted = old.wanted("vacuum")
    assert wanted.reason == "12 removed files with 12.0 MB are older than 7d"
    assert wanted.parameters == {"retain_hours": 168, "mode": "lite"}


@pytest.mark.parametrize(
    ("settings", "hours"),
    [
        ({"vacuum__retain": "0s"}, 168), ({"vacuum__retain": "1h"}, 168),
        ({"vacuum__retain": "200h"}, 200), ({"vacuum__retain_floor": "1h"}, 168),
    ],
)  # fmt: skip
def test_a_tables_settings_can_only_keep_more(tmp_path: Path, settings: dict[str, str], hours: int) -> None:
    assert removed_files(tmp_path / "t", 20).wanted("vacuum", **settings).parameters["retain_hours"] == hours


@pytest.mark.parametrize(("kept", "hours"), [("interval 0 seconds", 168), ("interval 2 weeks 12 hours", 348)])
def test_a_tables_own_retention_can_only_keep_more(tmp_path: Path, kept: str, hours: int) -> None:
    table = removed_files(tmp_path / "t", 20)
    table.commit(metadata({"deletedFileRetentionDuration": kept}))
    assert table.wanted("vacuum").parameters["retain_hours"] == hours


def test_a_retention_that_cannot_be_parsed_keeps_everything(tmp_path: Path) -> None:
    table = removed_files(tmp_path / "t", 20)
    table.commit(metadata({"deletedFileRetentionDuration": "interval 3 moons"}))
    assert "is no interval such as" in table.skipped("vacuum")


@pytest.mark.parametrize(("floor", "hours"), [("1h", 168), ("0s", 168), ("400h", 400)])
def test_not_even_the_operator_lowers_the_hard_floor(tmp_path: Path, floor: str, hours: int) -> None:
    table = removed_files(tmp_path / "t", 20)
    table.commit(metadata({"deletedFileRetentionDuration": "interval 0 seconds"}))
    harness = table.harness()
    harness.factory.open({"delta.vacuum.retain-floor": floor})
    admitted = harness.admitted(harness.asked("vacuum", options={"retain": "1h"}))
    assert admitted.process.parameters["retain_hours"] == hours


@pytest.mark.parametrize("text", ["nan", "-500h", "168", "7 d"])
def test_a_duration_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    message = f"is {text!r} (from table): use a duration such as 7d, 36h or 90s"
    assert removed_files(tmp_path / "t", 20).skipped("vacuum", vacuum__retain=text).endswith(message)
    with pytest.raises(Invalid, match="use a duration"):
        DeltaProcessFactory().open({"delta.vacuum.retain-floor": text})


def test_files_that_came_back_are_not_counted(tmp_path: Path) -> None:
    table = removed_files(tmp_path / "t", 20)
    table.commit(*adds(11, MB), operation="RESTORE", days_ago=15)
    assert "1 removed files with 1.0 MB" in table.wanted("vacuum").reason
    table.commit(*(remove(f"part-{n}.parquet", days_ago=2) for n in range(11)), days_ago=2)
    assert "1 removed files with 1.0 MB" in table.wanted("vacuum").reason, "they went again, but not long ago"


def vacuumed(table: LogTable, days_ago: float, status: str = "COMPLETED") -> None:
    kept = {"specifiedRetentionMillis": 7 * 24 * 3600 * 1000}
    table.commit(operation="VACUUM START", days_ago=days_ago, operationParameters=kept)
    table.commit(operation="VACUUM END", days_ago=days_ago, operationParameters={"status": status})


def test_what_a_vacuum_has_deleted_is_not_counted_again(tmp_path: Path) -> None:
    lite, full, failed = (removed_files(tmp_path / name, 20) for name in ("lite", "full", "failed"))
    (lite.path / "_delta_log" / "_last_vacuum_info").write_text('{"latestCommitVersionOutsideOfRetentionWindow":1}\n')
    vacuumed(full, 2)
    vacuumed(failed, 2, "FAILED")

    assert "0 removed files" in lite.skipped("vacuum")
    assert "0 removed files" in full.skipped("vacuum")
    assert "12 removed files" in failed.wanted("vacuum").reason


def test_a_log_that_forgot_its_beginning_is_vacuumed_by_listing(tmp_path: Path) -> None:
    table = removed_files(tmp_path / "t", 20)
    table.commit(add("x", MB, days_ago=15), days_ago=15)
    DeltaTable(str(table.path)).create_checkpoint()
    table.file(0).unlink()

    wanted = table.wanted("vacuum")
    assert wanted.parameters["mode"] == "full"
    assert "the log no longer names all of them, so the folder is listed" in wanted.reason
    assert "a lite vacuum is impossible" in table.skipped("vacuum", vacuum__mode="lite")


def test_of_very_many_commits_a_sample_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehand.formats.delta.vacuum.COMMITS_READ", 10)
    table = LogTable(tmp_path / "t", days_ago=40)
    for number in range(40):
        table.commit(remove(f"part-{number}.parquet", days_ago=20), days_ago=20)
    assert table.wanted("vacuum").reason == "about 36 removed files with 36.4 MB are older than 7d"


@pytest.mark.parametrize(
    ("action", "parameters", "message"),
    [
        ("vacuum", {"options": {"retain": "0; DROP"}}, "retain is '0; DROP' (from request): use a duration"),
        ("vacuum", {"options": {"retain": -5}}, "retain is '-5' (from request): use a duration"),
        ("vacuum", {"options": {"retain_hours": 200}}, "retain_hours is now retain: use a duration"),
        ("vacuum", {"options": {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}}, "has no option"),
        ("vacuum", {"options": {"mode": "brutal"}}, "use one of auto, lite, full"),
        ("vacuum", {"confirm": "yes"}, "confirm is 'yes' (from request): use true or false"),
        ("vacuum", {"dry_run": 1}, "dry_run is 1 (from request): use true or false"),
        ("optimize", {"dry_run": True}, "optimize has no dry run"),
        ("optimize", {"options": {"where": "1=1"}}, "has no option 'where'"),
        ("z-order", {"options": {"columns": "a`b"}}, "use names of columns"),
        ("z-order", {}, "names no columns"),
    ],
)  # fmt: skip
def test_what_a_person_may_not_ask_for_is_refused_for_good(
    tmp_path: Path, action: str, parameters: dict[str, object], message: str
) -> None:
    harness = removed_files(tmp_path / "t", 20).harness()
    answer = harness.factory.admit(harness.runtime(), harness.asked(action, **parameters))  # type: ignore[arg-type]
    assert isinstance(answer, Failure), answer
    assert answer.remedy is Remedy.FATAL
    assert message in answer.message


def test_confirming_is_for_people_and_not_for_stored_decisions(tmp_path: Path) -> None:
    harness = removed_files(tmp_path / "t", 20).harness()
    wanted = harness.wants("vacuum")
    assert isinstance(wanted, TableProcess)
    forged = TableProcess(
        action=wanted.action, job=wanted.job,
        parameters={**wanted.parameters, "confirm": True, "retain_hours": 1, "before": {"version": -5}, "mode": "full"},
    )  # fmt: skip

    admitted = harness.admitted(harness.stored(forged)).process.parameters

    assert (admitted["confirm"], admitted["retain_hours"], admitted["mode"]) == (False, 168, "lite")
    assert admitted["before"]["version"] == 1  # type: ignore[index, call-overload]


def test_what_is_no_longer_needed_is_dropped(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    harness = table.harness()
    wanted = harness.wants("optimize")
    assert isinstance(wanted, TableProcess)
    table.commit(add("merged", 30 * MB), *(remove(f"part-{n}.parquet", days_ago=0) for n in range(30)))

    answer = harness.factory.admit(harness.runtime(), harness.stored(wanted))

    assert isinstance(answer, Drop)
    assert answer.reason.startswith("no longer needed: 1 of 1 files are under 96.0 MB")


def test_a_full_vacuum_is_due_by_the_month(tmp_path: Path) -> None:
    harness = removed_files(tmp_path / "t", 1).harness()
    late = replace(harness, now=lambda: NOON + timedelta(days=31))
    runtime = late.runtime()
    runtime.table = replace(runtime.table, created_at=NOON)

    answer = harness.factory.trigger(runtime, Action("vacuum"))

    assert isinstance(answer, TableProcess)
    assert answer.parameters["mode"] == "full"
    assert answer.reason.startswith("registered 2026-11-15, and never listed; 12 removed files")


def test_the_table_is_not_read_during_a_pause(tmp_path: Path) -> None:
    harness = LogTable(tmp_path / "t", adds(30, MB)).harness()
    harness.asked("optimize")
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    answer = harness.wants("optimize")
    assert (type(answer), answer.reason) == (Skip, "operation 1 is pending")


def test_removed_files_outside_of_the_table_are_left_and_not_counted(tmp_path: Path) -> None:
    table = removed_files(tmp_path / "t", 20, count=3)
    names = [
        "/elsewhere/a.parquet",
        "file:/elsewhere/b.parquet",
        f"file:{tmp_path}/t2/c.parquet",
        "s3a://lake/d.parquet",
    ]
    table.commit(*(remove(name, days_ago=20) for name in (*names, f"file://{tmp_path}/t/own.parquet")), days_ago=20)
    wanted = table.wanted("vacuum")
    assert wanted.reason.startswith("4 removed files with 4.0 MB are older than 7d; 4 more lie outside of the table")
    assert wanted.parameters["left_outside"] == 4


def test_an_operation_is_admitted_for_the_table_with_this_id(tmp_path: Path) -> None:
    harness = removed_files(tmp_path / "t", 20).harness()
    assert harness.admitted(harness.asked("vacuum")).process.parameters["identity"] == "8f2f"


def days_of(process: TableProcess) -> list[str]:
    partitions: Any = process.parameters["partitions"]
    return [value for [[_, _, value]] in partitions]


def by_day(tmp_path: Path, **files: int) -> LogTable:
    """So many files of 10 MB on each day of November."""
    table = LogTable(tmp_path / "t")
    table.commit(metadata(partitions={"day": "date"}))
    for day, count in files.items():
        table.commit(*adds(count, 10 * MB, prefix=day, values={"day": f"2026-11-0{day[1:]}"}))
    return table


def test_a_bounded_run_begins_with_the_partitions_that_events_named(tmp_path: Path) -> None:
    harness = by_day(tmp_path, d1=9, d2=8, d3=2, d4=2).harness(optimize__max_bytes="150MB")
    plain = harness.wants("optimize")
    harness.changed_partitions = ["day=2026-11-03", "day=2026-11-04", "day=1999-01-01", "nonsense"]

    first = harness.wants("optimize")

    assert isinstance(plain, TableProcess)
    assert isinstance(first, TableProcess)
    assert (days_of(plain), "events" in plain.reason) == (["2026-11-01"], False)
    assert days_of(first) == ["2026-11-03", "2026-11-04", "2026-11-01"]
    assert first.reason.endswith(
        "210 MB in 21 files to rewrite into 4; of 4 partitions 3 now, first 2 that events named"
    )


def test_admission_keeps_to_what_events_had_named_at_the_decision(tmp_path: Path) -> None:
    harness = by_day(tmp_path, d1=9, d2=8, d3=2, d4=2).harness(optimize__max_bytes="150MB")
    harness.changed_partitions = ["day=2026-11-03"]
    wanted = harness.wants("optimize")
    assert isinstance(wanted, TableProcess)
    harness.changed_partitions = []  # the decision has used it up

    assert days_of(harness.admitted(harness.stored(wanted)).process) == ["2026-11-03", "2026-11-01"]


def test_a_hint_is_no_reason_to_rewrite(tmp_path: Path) -> None:
    harness = by_day(tmp_path, d1=9, d2=8).harness()
    before = harness.wants("optimize")
    harness.changed_partitions = ["day=2026-11-01"]
    assert isinstance(before, Skip)
    assert harness.wants("optimize") == before
