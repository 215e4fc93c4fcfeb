# SPDX-License-Identifier: Apache-2.0
"""lakehand maintain: does once what one table needs, with the service's own code; no service has to run."""

import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lakehand.cli.check import Set, open_local_reader, table_checker
from lakehand.cli.options import AsJson, CommandFailed, Config, VerifyRows, Yes, absolute_reference, pairs
from lakehand.cli.views import brief, card, coloured, grid, listing_view, rows_text
from lakehand.domain.row_checks import PROPERTY, row_mode, row_report
from lakehand.domain.texts import amount, span, visible
from lakehand.output import data, join, print_error, stdout_console

if TYPE_CHECKING:
    from lakehand.domain.actions import Action
    from lakehand.domain.operations import Operation
    from lakehand.local.check import CheckedTable
    from lakehand.local.discovery import DiscoveredTable
    from lakehand.local.maintain import MaintenanceRequest
    from lakehand.local.reader import LocalReader

COMPARED = {
    "files": "files", "bytes": "bytes", "small_files": "small files", "delete_files": "delete files",
    "deletion_vectors": "deletion vectors", "log_files": "log files", "snapshots": "snapshots",
    "pending_plans": "pending plans", "rows": "rows",
}  # fmt: skip
GOOD = frozenset({"succeeded", "dropped"})
SUBFOLDER = "maintain"  # of a given --home, so that a service with that home can go on


def maintain(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A table's folder or URI, or CATALOG:db.table.")],
    *,
    action: Annotated[
        list[str] | None, typer.Option(help="Run this action, needed or not; repeatable. Default: what is needed.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done, and list what would be deleted.")
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Delete even an implausibly large share of files. Needs --action.")
    ] = False,
    verify_rows: VerifyRows = None,
    set: Set = None,
    scheduling: Annotated[str | None, typer.Option(help="writer or service; default: the one that fits.")] = None,
    yes: Yes = False,
    home: Annotated[
        Path | None, typer.Option(help="Keep database and logs in a folder of this home. Default: removed at the end.")
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Do what a table needs, once, and show it before and after. Starts Spark and stops it again."""
    reader = open_local_reader(config)
    found = find_table(reader, path)
    wanted = requested_actions(reader, found, action or [], confirm=confirm)
    checker = table_checker(reader, set or [], scheduling)
    printer = MaintainPrinter(as_json=as_json)
    before = checker.check(found)
    if before.problem:
        raise CommandFailed(f"{found.location} cannot be read: {before.problem}")
    if not as_json:
        printer.out.print(card(before.document))
        if wanted:
            printer.out.print(f"requested: {', '.join(wanted)}")
    request = request_of(before, wanted, dry_run=dry_run, confirm=confirm)
    if request is None or not is_confirmed(dry_run=dry_run, yes=yes, as_json=as_json):
        printer.end_without_work(before)
        return
    with working_folder(home) as folder:
        done = run(
            found, before, request, reader=reader, home=folder, printer=printer,
            properties={**pairs(set or [], "--set"), **row_property(verify_rows)},
        )  # fmt: skip
        after = checker.check(found)
        is_good = printer.show_outcome(before, after, done, folder=folder)
        if not is_good:
            raise typer.Exit(1)


def row_property(mode: str | None) -> Mapping[str, str]:
    """The option counts for all that is done to the table, as its property does."""
    return {PROPERTY: str(row_mode(mode, "--verify-rows"))} if mode is not None else {}


def find_table(reader: "LocalReader", path: str) -> "DiscoveredTable":
    from lakehand.local.discovery import DiscoveredTable

    found = list(reader.tables_of(absolute_reference(path), reader.finder()))
    tables = [one for one in found if isinstance(one, DiscoveredTable)]
    if not tables:
        why = f": {found[0].reason}" if found and not isinstance(found[0], DiscoveredTable) else ""
        raise CommandFailed(f"{path} is not a table of {', '.join(sorted(reader.plugins.formats))}{why}")
    if len(tables) > 1:
        raise CommandFailed(f"there are {len(tables)} tables below {path}: name one; lakehand check {path} lists them")
    return tables[0]


def requested_actions(
    reader: "LocalReader", found: "DiscoveredTable", names: list[str], *, confirm: bool
) -> "tuple[Action, ...]":
    from lakehand.domain.actions import Action

    if confirm and not names:
        raise CommandFailed("--confirm needs --action, which names what you confirm")
    requested = tuple(dict.fromkeys(Action(name) for name in names))
    reader.plugins.check(found.format, frozenset(requested))
    return requested


def request_of(
    before: "CheckedTable", requested: "tuple[Action, ...]", *, dry_run: bool, confirm: bool
) -> "MaintenanceRequest | None":
    """None when there is nothing that needs Spark."""
    from lakehand.local.maintain import MaintenanceRequest

    if dry_run:
        listed = tuple(
            d.action for d in before.decisions if d.has_dry_run and (d.action in requested if requested else d.needed)
        )
        return MaintenanceRequest(actions=listed, dry_run=True) if listed else None
    return MaintenanceRequest(actions=requested, confirm=confirm) if requested or before.needs else None


def is_confirmed(*, dry_run: bool, yes: bool, as_json: bool) -> bool:
    """Asks at a terminal only."""
    if dry_run or yes or as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    return typer.confirm("Do it?", default=True)


@contextmanager
def working_folder(given: Path | None) -> Iterator[Path]:
    """A temporary folder, kept only if it was asked for or if something failed and its logs may help."""
    import shutil

    if given is not None:
        yield given.expanduser().absolute() / SUBFOLDER
        return
    folder = Path(mkdtemp(prefix="lakehand-maintain-"))
    try:
        yield folder
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def run(
    found: "DiscoveredTable",
    before: "CheckedTable",
    request: "MaintenanceRequest",
    *,
    reader: "LocalReader",
    home: Path,
    printer: "MaintainPrinter",
    properties: Mapping[str, str],
) -> "list[Operation]":
    from lakehand.local.maintain import one_shot_run

    with interruptible():
        printer.print_step(f"starting Spark; logs are in {home}")
        with one_shot_run(found, before, request, reader=reader, home=home, properties=properties) as service:
            try:
                with printer.progress():
                    return service.run(request, printer.on_change)
            except KeyboardInterrupt:
                printer.print_step("stopping; what was committed so far stays in the table")
                service.cancel()
                printer.on_change(service.operations())
                raise


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class MaintainPrinter:
    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.began = time.monotonic()
        self.out = stdout_console()
        self._bar: Progress | None = None
        self._bars: dict[int, TaskID] = {}
        self._printed: dict[int, str] = {}

    def print_step(self, text: str) -> None:
        if not self.as_json:
            at = data(f"{time.monotonic() - self.began:6.1f} s", "dim")
            self.out.print(join(at, f"  {text}"), soft_wrap=True)

    def end_without_work(self, before: "CheckedTable") -> None:
        if self.as_json:
            print(json.dumps({"before": before.document, "after": before.document, "operations": []}, indent=2))
        elif not before.needs:
            self.out.print("nothing to do")

    @contextmanager
    def progress(self) -> Iterator[None]:
        if self.as_json or not self.out.is_terminal:
            yield
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[phase]}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.out) as self._bar:
            yield
        self._bar = None

    def on_change(self, operations: "Sequence[Operation]") -> None:
        for operation in operations:
            text = describe(operation)
            if self._bar is not None:
                self._move(self._bar, operation, text)
            elif text != self._printed.get(operation.id):
                self._printed[operation.id] = text
                self.print_step(f"{operation.process.action}: {text}")

    def _move(self, bar: Progress, operation: "Operation", text: str) -> None:
        if operation.id not in self._bars:
            self._bars[operation.id] = bar.add_task(str(operation.process.action), total=None, phase="")
        done, total = tasks_of(operation)
        is_over = operation.status.is_final
        bar.update(
            self._bars[operation.id],
            phase=visible(text),
            total=1 if is_over else total,
            completed=1 if is_over else done,
        )
        if is_over:
            bar.stop_task(self._bars[operation.id])

    def show_outcome(
        self, before: "CheckedTable", after: "CheckedTable", done: "Sequence[Operation]", *, folder: Path
    ) -> bool:
        """Returns whether every operation succeeded and the table can be read."""
        bad = [operation for operation in done if str(operation.status) not in GOOD]
        if self.as_json:
            print(json.dumps(outcome_document(before, after, done), indent=2))
        else:
            self.out.print()
            self.out.print(operations_table(done))
            for operation in done:
                if report := row_report(operation.result):
                    self.out.print(join(f"rows of {operation.process.action}: ", rows_text(dict(report.document))))
                if operation.result.get("would_delete") is not None:
                    self.out.print(listing_view(dict(operation.result)))
            self.out.print()
            self.out.print(comparison(before, after))
        for one in bad:
            print_error(f"{one.process.action} ended {one.status}: {one.reason}; its log is in {folder / 'engines'}")
        if after.problem:
            print_error(f"the table can no longer be read: {after.problem}")
        return not bad and not after.problem


def describe(operation: "Operation") -> str:
    status, progress = operation.status, operation.progress
    if status.is_final:
        return f"{status}: {operation.reason}"
    if not status.is_live:
        return f"waits: {operation.reason}" if operation.reason else "waits"
    phase = progress.get("phase") or str(status)
    done, total = tasks_of(operation)
    return f"{phase} ({done} of {total} tasks)" if total else str(phase)


def tasks_of(operation: "Operation") -> tuple[int, int | None]:
    done, total = operation.progress.get("tasks_done"), operation.progress.get("tasks_total")
    return (done if isinstance(done, int) else 0), (total if isinstance(total, int) and total else None)


def operations_table(done: "Sequence[Operation]") -> Any:
    rows = grid("ACTION", "STATUS", "TOOK", "WHY")
    for one in done:
        begun = one.started_at or one.submitted_at
        took = span((one.finished_at - begun).total_seconds()) if begun and one.finished_at else "–"
        rows.add_row(str(one.process.action), coloured(str(one.status)), took, brief(one.reason))
    return rows


def comparison(before: "CheckedTable", after: "CheckedTable") -> Any:
    rows = grid("", "BEFORE", "AFTER")
    for name, words in COMPARED.items():
        if name in before.numbers or name in after.numbers:
            rows.add_row(
                words, format_number(name, before.numbers.get(name)), format_number(name, after.numbers.get(name))
            )
    return rows


def format_number(name: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return "–"
    return amount(value) if name == "bytes" else f"{value:,}"


def outcome_document(before: "CheckedTable", after: "CheckedTable", done: "Sequence[Operation]") -> dict[str, Any]:
    operations = [
        {
            "action": str(one.process.action),
            "status": str(one.status),
            "reason": one.reason,
            "attempts": one.run_times,
            "result": dict(one.result),
        }
        for one in done
    ]
    return {"before": before.document, "after": after.document, "operations": operations}
