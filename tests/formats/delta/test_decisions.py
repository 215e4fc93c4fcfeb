# SPDX-License-Identifier: Apache-2.0
"""What is decided from a log, with which numbers, and when nothing is."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehand.formats.delta import DeltaProcessFactory
from lakehand.formats.delta.log import Log
from lakehand.formats.delta.rewrites import HISTORY, history_of
from lakehand.spi import Action, Drop, Failure, Invalid, Remedy, Skip, TableProcess
from tests.formats.delta.logs import MB, NOON, LogTable, add, adds, metadata, protocol, remove
from tests.kit.sentences import Sentences

CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def test_small_files_are_counted_as_delta_packs_them(tmp_path: Path, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t", [*adds(30, 10 * MB), *adds(5, 100 * MB, prefix="large")])

    wanted = table.wanted("optimize")

    found = {"small": 30, "files": 35, "under": "96.0 MB", "size": "300 MB", "inputs": 30, "outputs": 3}
    sentences.check("small files", wanted.reason, **found)
    assert (wanted.parameters["small_bytes"], wanted.parameters["target_bytes"]) == (96 * MB, 128 * MB)


def test_files_of_which_no_two_fit_into_one_are_left_alone(tmp_path: Path, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t", adds(50, 90 * MB))
    found = {"small": 50, "files": 50, "under": "96.0 MB", "needed": 20}
    sentences.check("small files of which no two fit into one", table.skipped("optimize"), **found)


def test_files_are_not_merged_across_partitions(tmp_path: Path, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(metadata(partitions={"day": "date"}))
    table.commit(*(add(f"{n}.parquet", MB, values={"day": f"2026-11-{n % 28 + 1:02d}"}) for n in range(28)))
    found = {"small": 28, "files": 28, "under": "96.0 MB", "needed": 20}
    sentences.check("small files of which no two fit into one", table.skipped("optimize"), **found)

    table.commit(*adds(25, MB, prefix="again", values={"day": "2026-11-07"}))
    wanted = table.wanted("optimize")
    found = {"small": 53, "files": 53, "under": "96.0 MB", "size": "26.0 MB", "inputs": 26, "outputs": 1}
    sentences.check("small files", wanted.reason, **found)
    assert wanted.parameters["partitions"] == [[["day", "date", "2026-11-07"]]]


def test_partitions_that_cannot_be_named_safely_are_not_named(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(metadata(partitions={"moment": "timestamp"}))
    table.commit(
        *adds(25, MB, prefix="a", values={"moment": "2026-11-07 00:00:00"}),
        add("b", MB, values={"moment": "2026-11-08 00:00:00"}),
    )
    assert table.wanted("optimize").parameters["partitions"] is None


def test_the_tables_own_target_size_counts_unless_ours_is_set(tmp_path: Path, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t", adds(30, 10 * MB), configuration={"targetFileSize": "8mb"})
    found = {"small": 0, "files": 30, "under": "6.0 MB", "needed": 20}
    sentences.check("small files of which no two fit into one", table.skipped("optimize"), **found)
    assert table.wanted("optimize", optimize__target_file_bytes=str(64 * MB)).parameters["target_bytes"] == 64 * MB


@pytest.mark.parametrize("action", ["optimize", "z-order", "vacuum", "purge"])
def test_an_action_that_is_switched_off_is_not_run_for_anybody(
    tmp_path: Path, action: str, sentences: Sentences
) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    settings = {f"{action.replace('-', '_')}__enabled": "false"}
    off = table.skipped(action, **settings)
    sentences.check("the action is off", off, key=f"delta.{action}.enabled", source="table")
    harness = table.harness(**settings)
    answer = harness.factory.admit(harness.runtime(), harness.asked(action))
    assert answer == Failure(reason="refused", message=off, remedy=Remedy.FATAL)
    ours = harness.stored(TableProcess(action=Action(action)))
    assert harness.factory.admit(harness.runtime(), ours) == Drop(reason=off)


@pytest.mark.parametrize(
    ("demand", "case", "found"),
    [
        (protocol(4, 7), "an unknown protocol", {"reader": 4, "writer": 7}),
        (protocol(3, 8), "an unknown protocol", {"reader": 3, "writer": 8}),
        (
            protocol(3, 7, ["deletionVectors", "catalogManaged"]), "an unknown feature",
            {"feature": "catalogManaged"},
        ),
    ],
)  # fmt: skip
def test_a_table_beyond_the_engines_delta_is_never_rewritten(
    tmp_path: Path, demand: dict[str, object], case: str, found: dict[str, object], sentences: Sentences
) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    table.commit(demand)
    sentences.check(case, table.skipped("optimize"), **found)
    harness = table.harness()
    answer = harness.factory.admit(harness.runtime(), harness.asked("vacuum"))
    assert isinstance(answer, Failure)
    assert (answer.remedy, answer.reason) == (Remedy.FATAL, "refused")
    sentences.check(case, answer.message, **found)


def test_an_operator_who_knows_better_can_allow_a_feature(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    table.commit(protocol(3, 7, ["variantType"]))
    harness = table.harness()
    harness.factory.open({"delta.table-features": "variantType, other"})
    assert isinstance(harness.wants("optimize"), TableProcess)


def test_a_table_that_is_also_kept_as_iceberg_is_left_alone(tmp_path: Path, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB), configuration={"universalFormat.enabledFormats": "iceberg"})
    sentences.check("also kept as another format", table.skipped("optimize"), format="iceberg")


def test_purge_wants_files_and_rows(tmp_path: Path, sentences: Sentences) -> None:
    few = LogTable(tmp_path / "few", [add(f"{n}", MB, deleted=500) for n in range(9)])
    thin = LogTable(tmp_path / "thin", [add(f"{n}", MB, deleted=1) for n in range(50)])
    enough = LogTable(tmp_path / "enough", [*(add(f"{n}", MB, deleted=50) for n in range(10)), *adds(10, MB)])

    files = {"vectors": 9, "files": 9, "deleted": 4500, "rows": 9000, "share": "50.0%", "size": "9.0 MB"}
    sentences.check("too few deletion vectors", few.skipped("purge"), **files, needed=10, needed_share="5%")
    rows = {"vectors": 50, "files": 50, "deleted": 50, "rows": 50000, "share": "0.1%", "size": "50.0 MB"}
    sentences.check("too few deletion vectors", thin.skipped("purge"), **rows, needed=10, needed_share="5%")
    both = {"vectors": 10, "files": 20, "deleted": 500, "rows": 10000, "share": "5.0%", "size": "10.0 MB"}
    sentences.check("many deletion vectors", enough.wanted("purge").reason, **both)


def z_ordered(table: LogTable, *names: str, columns: str = '["id"]', days_ago: float = 3) -> None:
    added = [add(name, 400 * MB, days_ago=days_ago) for name in names]
    table.commit(*added, operation="OPTIMIZE", days_ago=days_ago, operationParameters={"zOrderBy": columns})


def test_what_was_z_ordered_is_found_in_the_log(tmp_path: Path, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t")
    sentences.check("no columns to order by", table.skipped("z-order"), key="delta.z-order.columns")
    z_ordered(table, "a", "b", "c")
    ordered = {"unordered": 0, "files": 3, "part": "0 B", "size": "1.2 GB", "columns": "ID"}
    sentences.check("the files are in order", table.skipped("z-order", z_order__columns="ID"), **ordered)
    another = table.wanted("z-order", z_order__columns="id,v").reason
    found = {"unordered": 3, "files": 3, "part": "1.2 GB", "size": "1.2 GB", "columns": "id, v"}
    sentences.check("files are out of order", another, **found, rewritten="1.2 GB")

    table.commit(add("new", 300 * MB, days_ago=2))
    found = {"unordered": 1, "files": 4, "part": "300 MB", "size": "1.5 GB", "columns": "id"}
    wanted = table.wanted("z-order", z_order__columns="id")
    sentences.check("files are out of order", wanted.reason, **found, rewritten="1.5 GB")


def test_what_was_z_ordered_is_remembered_when_the_log_forgets_it(tmp_path: Path, sentences: Sentences) -> None:
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
    ordered = {"unordered": 0, "files": 1, "part": "0 B", "size": "900 MB", "columns": "id"}
    sentences.check("the files are in order", answer.reason, **ordered)


@pytest.mark.parametrize(
    ("columns", "case"), [("nope", "no such column to order by"), ("day", "no order by a partition")]
)
def test_columns_that_cannot_order_files_are_refused(
    tmp_path: Path, columns: str, case: str, sentences: Sentences
) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(metadata(partitions={"day": "date"}), add("x", 900 * MB, values={"day": "2026-11-07"}))
    sentences.check(case, table.skipped("z-order", z_order__columns=columns), column=columns)


def removed_files(path: Path, days_ago: float, count: int = 12) -> LogTable:
    table = LogTable(path, adds(count, MB, days_ago=40), days_ago=40)
    merged = add("merged", count * MB, days_ago=days_ago)
    table.commit(merged, *(remove(f"part-{n}.parquet", days_ago=days_ago) for n in range(count)), days_ago=days_ago)
    return table


def test_a_vacuum_waits_for_seven_days(tmp_path: Path, sentences: Sentences) -> None:
    young, old = removed_files(tmp_path / "young", 6.9), removed_files(tmp_path / "old", 7.1)

    found = {"old": 0, "old_size": "0 B", "retain": "7d", "young": 12, "young_size": "12.0 MB"}
    first = "2026-11-08 14:24 UTC"
    sentences.check("removed files are too young", young.skipped("vacuum"), **found, first=first)
    wanted = old.wanted("vacuum")
    sentences.check("removed files are old", wanted.reason, old=12, size="12.0 MB", retain="7d")
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


def test_a_retention_that_cannot_be_parsed_keeps_everything(tmp_path: Path, sentences: Sentences) -> None:
    table = removed_files(tmp_path / "t", 20)
    table.commit(metadata({"deletedFileRetentionDuration": "interval 3 moons"}))
    sentences.check("the retention is not an interval", table.skipped("vacuum"), value="interval 3 moons")


@pytest.mark.parametrize(("floor", "hours"), [("1h", 168), ("0s", 168), ("400h", 400)])
def test_not_even_the_operator_lowers_the_hard_floor(tmp_path: Path, floor: str, hours: int) -> None:
    table = removed_files(tmp_path / "t", 20)
    table.commit(metadata({"deletedFileRetentionDuration": "interval 0 seconds"}))
    harness = table.harness()
    harness.factory.open({"delta.vacuum.retain-floor": floor})
    admitted = harness.admitted(harness.asked("vacuum", options={"retain": "1h"}))
    assert admitted.process.parameters["retain_hours"] == hours


@pytest.mark.parametrize("text", ["nan", "-500h", "168", "7 d"])
def test_a_duration_that_is_none_is_refused(tmp_path: Path, text: str, sentences: Sentences) -> None:
    reason = removed_files(tmp_path / "t", 20).skipped("vacuum", vacuum__retain=text)
    sentences.check("no duration in a table", reason, key="delta.vacuum.retain", value=repr(text))
    with pytest.raises(Invalid, match=r"delta\.vacuum\.retain-floor") as refused:
        DeltaProcessFactory().open({"delta.vacuum.retain-floor": text})
    sentences.check("no duration of the operator", str(refused.value), value=repr(text))


def test_files_that_came_back_are_not_counted(tmp_path: Path, sentences: Sentences) -> None:
    table = removed_files(tmp_path / "t", 20)
    table.commit(*adds(11, MB), operation="RESTORE", days_ago=15)
    found = {"old": 1, "size": "1.0 MB", "retain": "7d"}
    sentences.check("removed files are old", table.wanted("vacuum").reason, **found)
    table.commit(*(remove(f"part-{n}.parquet", days_ago=2) for n in range(11)), days_ago=2)
    # They went again, but not long ago.
    sentences.check("removed files are old", table.wanted("vacuum").reason, **found)


def vacuumed(table: LogTable, days_ago: float, status: str = "COMPLETED") -> None:
    kept = {"specifiedRetentionMillis": 7 * 24 * 3600 * 1000}
    table.commit(operation="VACUUM START", days_ago=days_ago, operationParameters=kept)
    table.commit(operation="VACUUM END", days_ago=days_ago, operationParameters={"status": status})


def test_what_a_vacuum_has_deleted_is_not_counted_again(tmp_path: Path, sentences: Sentences) -> None:
    lite, full, failed = (removed_files(tmp_path / name, 20) for name in ("lite", "full", "failed"))
    (lite.path / "_delta_log" / "_last_vacuum_info").write_text('{"latestCommitVersionOutsideOfRetentionWindow":1}\n')
    vacuumed(full, 2)
    vacuumed(failed, 2, "FAILED")

    none = {"old": 0, "size": "0 B", "retain": "7d"}
    sentences.check("no removed files are old", lite.skipped("vacuum"), **none)
    sentences.check("no removed files are old", full.skipped("vacuum"), **none)
    sentences.check("removed files are old", failed.wanted("vacuum").reason, old=12, size="12.0 MB", retain="7d")


def test_a_log_that_forgot_its_beginning_is_vacuumed_by_listing(tmp_path: Path, sentences: Sentences) -> None:
    table = removed_files(tmp_path / "t", 20)
    table.commit(add("x", MB, days_ago=15), days_ago=15)
    DeltaTable(str(table.path)).create_checkpoint()
    table.file(0).unlink()

    wanted = table.wanted("vacuum")
    assert wanted.parameters["mode"] == "full"
    sentences.check("the log forgot removed files", wanted.reason)
    sentences.check("a lite vacuum is impossible", table.skipped("vacuum", vacuum__mode="lite"))


def test_of_very_many_commits_a_sample_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    monkeypatch.setattr("lakehand.formats.delta.vacuum.COMMITS_READ", 10)
    table = LogTable(tmp_path / "t", days_ago=40)
    for number in range(40):
        table.commit(remove(f"part-{number}.parquet", days_ago=20), days_ago=20)
    found = {"old": 36, "size": "36.4 MB", "retain": "7d"}
    sentences.check("about so many removed files are old", table.wanted("vacuum").reason, **found)


@pytest.mark.parametrize(
    ("action", "parameters", "case", "found"),
    [
        ("vacuum", {"options": {"retain": "0; DROP"}}, "no duration in a request", {"value": "'0; DROP'"}),
        ("vacuum", {"options": {"retain": -5}}, "no duration in a request", {"value": "'-5'"}),
        ("vacuum", {"options": {"retain_hours": 200}}, "an option with its old name", {"name": "retain"}),
        ("vacuum", {"options": {CHECK: "false"}}, "no such option of vacuum", {"name": CHECK}),
        ("vacuum", {"options": {"mode": "brutal"}}, "no such mode", {"value": "brutal"}),
        ("vacuum", {"confirm": "yes"}, "neither true nor false", {"name": "confirm", "value": "'yes'"}),
        ("vacuum", {"dry_run": 1}, "neither true nor false", {"name": "dry_run", "value": 1}),
        ("optimize", {"dry_run": True}, "no dry run", {"action": "optimize"}),
        ("optimize", {"options": {"where": "1=1"}}, "no such option of optimize", {"name": "where"}),
        ("z-order", {"options": {"columns": "a`b"}}, "no name of a column", {"value": "a`b"}),
        ("z-order", {}, "no columns to order by", {"key": "delta.z-order.columns"}),
    ],
)  # fmt: skip
def test_what_a_person_may_not_ask_for_is_refused_for_good(
    tmp_path: Path,
    action: str,
    parameters: dict[str, object],
    case: str,
    found: dict[str, object],
    *,
    sentences: Sentences,
) -> None:
    harness = removed_files(tmp_path / "t", 20).harness()
    answer = harness.factory.admit(harness.runtime(), harness.asked(action, **parameters))  # type: ignore[arg-type]
    assert isinstance(answer, Failure), answer
    assert answer.remedy is Remedy.FATAL
    sentences.check(case, answer.message, **found)


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


def test_what_is_no_longer_needed_is_dropped(tmp_path: Path, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    harness = table.harness()
    wanted = harness.wants("optimize")
    assert isinstance(wanted, TableProcess)
    table.commit(add("merged", 30 * MB), *(remove(f"part-{n}.parquet", days_ago=0) for n in range(30)))

    answer = harness.factory.admit(harness.runtime(), harness.stored(wanted))

    assert isinstance(answer, Drop)
    sentences.check("no longer needed", answer.reason, small=1, files=1, under="96.0 MB")


def test_a_full_vacuum_is_due_by_the_month(tmp_path: Path, sentences: Sentences) -> None:
    harness = removed_files(tmp_path / "t", 1).harness()
    late = replace(harness, now=lambda: NOON + timedelta(days=31))
    runtime = late.runtime()
    runtime.table = replace(runtime.table, created_at=NOON)

    answer = harness.factory.trigger(runtime, Action("vacuum"))

    assert isinstance(answer, TableProcess)
    assert answer.parameters["mode"] == "full"
    sentences.check("never listed", answer.reason, registered="2026-11-15", old=12, size="12.0 MB")


def test_the_table_is_not_read_during_a_pause(tmp_path: Path, sentences: Sentences) -> None:
    harness = LogTable(tmp_path / "t", adds(30, MB)).harness()
    harness.asked("optimize")
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    answer = harness.wants("optimize")
    assert isinstance(answer, Skip)
    sentences.check("an operation is under way", answer.reason, operation=1, status="pending")


def test_removed_files_outside_of_the_table_are_left_and_not_counted(tmp_path: Path, sentences: Sentences) -> None:
    table = removed_files(tmp_path / "t", 20, count=3)
    names = [
        "/elsewhere/a.parquet",
        "file:/elsewhere/b.parquet",
        f"file:{tmp_path}/t2/c.parquet",
        "s3a://lake/d.parquet",
    ]
    table.commit(*(remove(name, days_ago=20) for name in (*names, f"file://{tmp_path}/t/own.parquet")), days_ago=20)
    wanted = table.wanted("vacuum")
    sentences.check("removed files lie outside", wanted.reason, old=4, size="4.0 MB", outside=4)
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


def test_a_bounded_run_begins_with_the_partitions_that_events_named(tmp_path: Path, sentences: Sentences) -> None:
    harness = by_day(tmp_path, d1=9, d2=8, d3=2, d4=2).harness(optimize__max_bytes="150MB")
    plain = harness.wants("optimize")
    harness.changed_partitions = ["day=2026-11-03", "day=2026-11-04", "day=1999-01-01", "nonsense"]

    first = harness.wants("optimize")

    assert isinstance(plain, TableProcess)
    assert isinstance(first, TableProcess)
    assert days_of(plain) == ["2026-11-01"]
    assert days_of(first) == ["2026-11-03", "2026-11-04", "2026-11-01"]
    found = {"small": 21, "files": 21, "under": "96.0 MB", "size": "210 MB", "inputs": 21, "outputs": 4}
    sentences.check("small files", plain.reason, **found)
    sentences.check("small files where events came from", first.reason, **found, partitions=4, now=3, named=2)


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


MINUTE = 1 / 1440  # of a day
OURS = {"userMetadata": "lakehand-operation=3-x"}


def busy_table(path: Path, statement: str, *ours: tuple[str, float]) -> LogTable:
    """All three rewrites are needed; rows were changed an hour ago, and then we committed (operation, minutes ago)."""
    table = LogTable(path, [*adds(30, MB), *(add(f"v{n}", 300 * MB, deleted=500) for n in range(12))])
    table.commit(operation=statement, days_ago=60 * MINUTE)
    for operation, minutes in ours:
        table.commit(operation=operation, days_ago=minutes * MINUTE, **OURS)
    return table


@pytest.mark.parametrize("action", ["optimize", "z-order", "purge"])
def test_row_level_writers_have_time_between_two_rewrites(tmp_path: Path, action: str) -> None:
    settings = {"z_order__columns": "id", "z_order__min_bytes": "1"}

    def answer(statement: str, *ours: tuple[str, float], **more: str) -> TableProcess | Skip:
        table = busy_table(tmp_path / f"{len(list(tmp_path.iterdir()))}", statement, *ours)
        return table.harness(**settings, **more).wants(action)

    for operation in ("OPTIMIZE", "REORG"):
        waiting = answer("MERGE", (operation, 4))
        assert isinstance(waiting, Skip), operation
        assert (waiting.look_again, waiting.is_starved) == (timedelta(minutes=6), False)
    assert isinstance(answer("WRITE", ("OPTIMIZE", 4)), TableProcess), "an append does not conflict"
    assert isinstance(answer("MERGE", ("VACUUM END", 4)), TableProcess), "a vacuum is in nobody's way"
    assert isinstance(answer("MERGE", ("OPTIMIZE", 4), rest_period="3m"), TableProcess)
    quiet = answer("MERGE", quiet_period="90m")
    assert isinstance(quiet, Skip)
    assert quiet.look_again == timedelta(minutes=30)


def test_a_rewrite_that_a_person_requests_waits_for_nobody(tmp_path: Path) -> None:
    harness = busy_table(tmp_path / "t", "MERGE", ("OPTIMIZE", 4)).harness()
    ours = harness.stored(TableProcess(action=Action("optimize"), job="delta.optimize"))
    assert isinstance(harness.factory.admit(harness.runtime(), ours), Skip)
    assert isinstance(harness.factory.admit(harness.runtime(), harness.asked("optimize")), TableProcess)


def test_a_log_of_many_commits_is_read_back_only_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    for number in range(250):
        table.commit(days_ago=(250 - number) / 4 * MINUTE)
    snapshot = table.snapshot()
    assert len(snapshot.files) == 30
    read: list[int] = []
    commit = Log.commit

    def counted(log: Log, version: int) -> Any:
        read.append(version)
        return commit(log, version)

    monkeypatch.setattr(Log, "commit", counted)

    history = history_of(snapshot, NOON)

    assert (len(list(history.writes)), history.has_row_level_writers) == (HISTORY, False)
    assert len(read) == HISTORY
