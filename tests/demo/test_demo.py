# SPDX-License-Identifier: Apache-2.0
"""The demo: its promises, and a whole run of the command."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
from rich.console import Console

from lakehand.client import ActionExplanation, Operation, TableName
from lakehand.demo.lake import Lake, open_lake
from lakehand.demo.result import MERGED, DemoSnapshot, TableOutcome, comparison, promises, take_snapshot
from lakehand.demo.scenario import is_quiet
from lakehand.demo.service import SHOWN, DemoFailed, format_readers
from lakehand.demo.tables import demo_tables
from lakehand.domain.errors import Invalid
from lakehand.domain.operations import Status
from lakehand.domain.tables import TableReference
from lakehand.spi import Format, Json, TableFormat
from tests.demo.snapshots import a_snapshot, an_outcome
from tests.kit.polling import wait_for


def render(outcomes: list[TableOutcome], width: int = 140) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(comparison(outcomes, width))
    return captured.get()


def test_a_query_opens_data_files_and_what_is_merged_with_them() -> None:
    taken = a_snapshot(files=10, log_files=3, delete_files=2, deletion_vectors=1, snapshots=40)

    assert (taken.count("files"), taken.count(*MERGED), taken.opened) == (10, 6, 16)


class FixedSnapshot:
    token = "1"
    numbers: ClassVar[dict[str, Json]] = {"files": 3, "bytes": 12}


class FixedFormat(TableFormat):
    """Not a real format: says what it is told to say."""

    format = Format("said")

    def probe(self, reference: TableReference) -> str:
        return "1"

    def inspect(self, reference: TableReference) -> FixedSnapshot:
        assert reference.location == "/lake/said"
        return FixedSnapshot()


def test_a_snapshot_joins_the_metadata_with_what_a_reader_sees() -> None:
    taken = take_snapshot(
        FixedFormat(), TableReference(location="/lake/said"), {"rows": 5, "checksum": "77", "seconds": 0.5}
    )

    assert taken == DemoSnapshot(numbers=FixedSnapshot.numbers, rows=5, checksum="77", seconds=0.5)


@pytest.mark.parametrize(
    ("outcome", "broken"),
    [
        (an_outcome(a_snapshot(files=1)), []),
        (an_outcome(a_snapshot(files=9)), []),
        (an_outcome(a_snapshot(files=1), statuses=["succeeded", "failed"]), ["every operation succeeded"]),
        (an_outcome(a_snapshot(files=1), statuses=[]), ["every operation succeeded"]),
        (an_outcome(a_snapshot(files=1, checksum="other")), ["same rows with the same values"]),
        (an_outcome(a_snapshot(files=9, log_files=4)), ["fewer files"]),
        (an_outcome(a_snapshot(files=1, pending_plans=1)), ["no plan is left"]),
        (an_outcome(a_snapshot(files=1), was_notified=False), ["was notified"]),
    ],
)
def test_a_broken_promise_is_seen_and_names_its_table(outcome: TableOutcome, broken: list[str]) -> None:
    fine = an_outcome(a_snapshot(files=1), name="fine")

    failed = [promise.text for promise in promises([fine, outcome]) if not promise.is_kept]

    assert len(failed) == len(broken)
    assert all(word in text and "1 of 2 tables; not so: t)" in text for word, text in zip(broken, failed, strict=True))


def test_the_comparison_says_which_tables_are_fixed() -> None:
    rows = render(
        [an_outcome(a_snapshot(files=1)), an_outcome(a_snapshot(files=9, log_files=4), name="ill")]
    ).splitlines()

    assert [row.strip().rpartition("  ")[2] for row in rows if "compaction" in row] == ["fixed", "NOT FIXED"]
    assert any("9 → 1" in row and "4 → 0" in row for row in rows)


def test_the_comparison_fits_a_narrow_screen() -> None:
    reported = render([an_outcome(a_snapshot(files=1), name="payments")], width=80)

    assert "…" not in reported
    assert all(word in reported for word in ("payments", "hudi", "compaction", "→ 1", "equal", "fixed"))


def test_an_unknown_format_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(DemoFailed, match="csv: the demo has hudi, iceberg, delta, paimon, lance"):
        format_readers(["hudi", "csv"])


def test_each_format_has_a_table_and_only_hudi_writers_notify(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path), home=tmp_path)
    tables = demo_tables(SHOWN, url="http://127.0.0.1:1", lake=lake)

    assert {table.format for table in tables} == set(SHOWN)
    assert {table.name for table in tables if table.notifies} == {"trips", "orders"}
    assert [table.name for table in demo_tables(["delta"], url="http://x", lake=lake)] == ["payments"]


def test_in_a_bucket_the_writer_and_lakehand_take_turns_where_two_commits_at_once_are_not_safe(tmp_path: Path) -> None:
    lake = Lake(root="s3://lake", home=tmp_path, s3={"endpoint": "http://127.0.0.1:1", "region": "x"})
    tables = {table.format: table for table in demo_tables(SHOWN, url="http://127.0.0.1:1", lake=lake)}

    assert {name for name, table in tables.items() if not table.only_writer} == {"iceberg", "lance"}
    assert tables["delta"].only_writer == {"delta.only-writer": "true"}
    assert tables["iceberg"].registration["catalog"] == "iceberg"
    assert tables["iceberg"].location == "s3://lake/shop/clicks"


def test_an_unknown_storage_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with ExitStack() as parts, pytest.raises(Invalid, match="tape: the demo has disk, s3"):
        open_lake("tape", tmp_path, parts)


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 10, 0, second, tzinfo=timezone.utc)


def an_operation(finished_at: datetime | None = None) -> Operation:
    return Operation(
        id=1, table=TableName(id=1, db_name="", table_name="t", location="/t", format="hudi"), instant="1",
        action="compaction", status=Status.SUCCEEDED if finished_at else Status.RUNNING, attempts=1, created_at=at(0),
        finished_at=finished_at, reason="", queue="", owner="", priority=0, engine="spark", origin="", updated_at=at(0),
        submitted_at=None, started_at=None, next_try=None, cancel_requested=False, is_deleted=False, progress={},
        retry_on_error=True,
    )  # fmt: skip


def an_action(evaluated: int | None, *, finished: int | None = None, unfinished: int = 0) -> ActionExplanation:
    return ActionExplanation(
        action="compaction", wanted=True, now="", evaluated_at=None if evaluated is None else at(evaluated),
        last_decision=None, last_start=None, next_evaluation=None, unfinished=[an_operation()] * unfinished,
        last_finished=None if finished is None else an_operation(at(finished)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("action", "notified", "quiet"),
    [
        (an_action(2, finished=1), None, True),
        (an_action(2, finished=1), at(3), False),
        (an_action(2, finished=3), None, False),
        (an_action(2, unfinished=1), None, False),
        (an_action(None), None, False),
    ],
)
def test_a_table_is_quiet_when_it_was_evaluated_after_everything_else(
    action: ActionExplanation, notified: datetime | None, quiet: bool
) -> None:
    assert is_quiet([action], notified) is quiet


def start_demo(tmp_path: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "lakehand.cli", "demo", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip


def processes_of(folder: Path) -> list[int]:
    found = psutil.process_iter(["pid", "cmdline"])
    return [p.info["pid"] for p in found if any(str(folder) in word for word in p.info["cmdline"] or [])]


def gone(folder: Path) -> bool:
    """Nothing is left that was started there; what was ended may take a moment to vanish."""
    return wait_for(lambda: not processes_of(folder), f"the processes of {folder} to end", 30, pace=0.05)


HUDI = ("compaction", "clustering", "clean")
ALL = (*HUDI, "rewrite-data", "optimize", "compact")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("formats", "actions"),
    [
        pytest.param(["hudi", "delta"], (*HUDI, "optimize"), marks=pytest.mark.long, id="two formats"),
        pytest.param([*SHOWN], ALL, marks=pytest.mark.long, id="all formats"),
    ],
)
def test_the_demo_keeps_its_promises_and_leaves_nothing_behind(
    formats: list[str], actions: tuple[str, ...], tmp_path: Path
) -> None:
    output = finished(start_demo(tmp_path, "--formats", ",".join(formats)), 590)

    for action in actions:
        assert f"{action} is needed" in output
    assert_repaired_meanwhile(output)
    assert fixed_formats(output) == set(formats), output
    assert list(tmp_path.glob("lakehand-demo-*")) == []
    assert gone(tmp_path)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_demo_in_a_bucket_shows_what_is_refused_there_and_keeps_its_promises(tmp_path: Path) -> None:
    """Without Hudi and Paimon, whose many requests take minutes."""
    output = finished(start_demo(tmp_path, "--storage", "s3", "--formats", "iceberg,delta,lance"), 1100)

    assert "it is not done: on s3:// one of two Delta commits is lost" in output
    assert "delta.only-writer=true: its writer waits while Lakehand works" in output
    assert fixed_formats(output) == {"iceberg", "delta", "lance"}, output
    assert gone(tmp_path)


def finished(demo: "subprocess.Popen[str]", seconds: int) -> str:
    with demo:
        output = demo.communicate(timeout=seconds)[0]
    assert demo.returncode == 0, output
    assert "every promise was kept" in output
    assert "BROKEN" not in output
    return output


def assert_repaired_meanwhile(output: str) -> None:
    """Each table is said to be fixed, with its number; Lakehand may work on one before the next is damaged."""
    count = sum(line.rstrip().endswith(" fixed") for line in output.splitlines())
    said = [line.partition(" is fixed: ")[2] for line in output.splitlines() if " is fixed: " in line]
    assert said == [f"{number} of {count} tables are done" for number in range(1, count + 1)], output
    begins = [output.index(line) for line in output.splitlines() if "Lakehand may begin" in line]
    damaged = [output.index(line) for line in output.splitlines() if " commit 1 of " in line and "later" not in line]
    assert len(begins) == len(damaged) == count
    assert all(before < after for before, after in zip(begins, damaged[1:], strict=False)), output


def fixed_formats(output: str) -> set[str]:
    return {line.split()[1] for line in output.splitlines() if line.rstrip().endswith(" fixed")}


@pytest.mark.spark
@pytest.mark.long
def test_a_demo_that_is_stopped_ends_what_it_started_and_keeps_the_logs(tmp_path: Path) -> None:
    with start_demo(tmp_path) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "tables are registered" in line:
                break
        demo.send_signal(signal.SIGINT)
        output = demo.communicate(timeout=120)[0]

    assert demo.returncode == 130, output
    [home] = tmp_path.glob("lakehand-demo-*")
    assert str(home) in output
    assert (home / "service" / "service.log").exists()
    assert gone(tmp_path)
