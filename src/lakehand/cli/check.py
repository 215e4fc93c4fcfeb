# SPDX-License-Identifier: Apache-2.0
"""lakehand check: shows the health of tables and what Lakehand would do, without a service and without Spark."""

import json
import logging
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.status import Status

from lakehand.cli.options import AsJson, CommandFailed, Config, absolute_reference, pairs
from lakehand.cli.views import card, health_line, list_counts
from lakehand.domain.texts import span
from lakehand.output import SafeConsole, data, print_error, stdout_console

if TYPE_CHECKING:
    from lakehand.local.check import CheckedTable, TableChecker
    from lakehand.local.reader import LocalReader

PROGRESS_INTERVAL = 2.0  # seconds between two lines of progress without a terminal

Paths = Annotated[
    list[str], typer.Argument(metavar="PATH...", help="A table, a folder with tables, or CATALOG:db.table.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Decide as if the table had this property; repeatable."),
]
Way = Annotated[str | None, typer.Option("--scheduling", help="writer or service; default: whichever needs more.")]


def check(
    paths: Paths,
    *,
    set: Set = None,
    scheduling: Way = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="Show all details, also for many tables.")] = False,
    fail_on_need: Annotated[bool, typer.Option(help="Exit with status 1 if a table needs work or is broken.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show table health, and what Lakehand would do and why. Only reads; needs no service and no Spark."""
    from lakehand.local.check import check_tables

    reader = open_local_reader(config)
    checker = table_checker(reader, set or [], scheduling)
    finder = reader.finder()
    with CheckPrinter(as_json=as_json, long=long) as printer:
        for checked in check_tables(map(absolute_reference, paths), reader, finder, checker):
            printer.show(checked, folders=finder.folders)
    printer.print_summary()
    if printer.missing or (fail_on_need and printer.unhealthy):
        raise typer.Exit(1)


def open_local_reader(config: Path | None) -> "LocalReader":
    from lakehand.local.reader import open_reader

    logging.getLogger().addHandler(logging.NullHandler())  # keep logs and warnings of libraries out of the output
    logging.captureWarnings(True)
    reader = open_reader(config)
    for problem in reader.problems():
        print_error(problem)
    return reader


def table_checker(reader: "LocalReader", given: list[str], scheduling: str | None) -> "TableChecker":
    from lakehand.domain.tables import Scheduling
    from lakehand.local.check import TableChecker

    if scheduling not in (None, *(str(way) for way in Scheduling)):
        raise CommandFailed(f"--scheduling {scheduling!r} is not known: use writer or service")
    chosen = Scheduling(scheduling) if scheduling else None
    return TableChecker(plugins=reader.plugins, properties=dict(pairs(given, "--set")), scheduling=chosen)


class CheckPrinter(AbstractContextManager["CheckPrinter"]):
    """One table is printed as a card; from the second on each is a line, unless ``long`` is set."""

    def __init__(self, *, as_json: bool, long: bool) -> None:
        self.as_json = as_json
        self.long = long
        self.began = time.perf_counter()
        self.out = stdout_console()
        self.states: Counter[str] = Counter()
        self.needs: Counter[str] = Counter()
        self.formats: Counter[str] = Counter()
        self.missing = 0  # paths that lead to no table
        self._first: CheckedTable | None = None
        self._last_progress = time.perf_counter()
        self._spinner = self._new_spinner()

    @property
    def unhealthy(self) -> int:
        return self.states["needs"] + self.states["broken"]

    @property
    def tables(self) -> int:
        return sum(self.states.values())

    def __enter__(self) -> "CheckPrinter":
        if self._spinner:
            self._spinner.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._spinner:
            self._spinner.stop()
        if self._first is not None:
            self.out.print(card(self._first.document))

    def show(self, checked: "CheckedTable", *, folders: int) -> None:
        if not checked.location:
            self.missing += 1
            print_error(checked.problem)
            return
        self._count(checked)
        if self.as_json:
            print(json.dumps(checked.document), flush=True)
        else:
            self._print(checked)
        self._show_progress(folders)

    def print_summary(self) -> None:
        if self.tables < 2 or self.as_json:
            return
        took = span(time.perf_counter() - self.began)
        needing, broken = self.states["needs"], self.states["broken"]
        parts = [f"{needing} {'needs' if needing == 1 else 'need'} something{list_counts(self.needs)}"]
        parts += [f"{broken} {'is' if broken == 1 else 'are'} broken"] if broken else []
        self.out.print(f"{self.tables} tables{list_counts(self.formats)} in {took}: {', '.join(parts)}", style="bold")

    def _count(self, checked: "CheckedTable") -> None:
        self.states[checked.state] += 1
        self.needs.update(str(decision.action) for decision in checked.needs)
        self.formats.update([checked.format] if checked.format else [])

    def _print(self, checked: "CheckedTable") -> None:
        """Hold the first table back until a second one shows that it is not the only one."""
        if self.long:
            self.out.print(card(checked.document))
        elif self.tables == 1:
            self._first = checked
        else:
            held, self._first = self._first, None
            for one in [held, checked] if held else [checked]:
                self.out.print(health_line(one.document), soft_wrap=True)

    def _new_spinner(self) -> Status | None:
        """On standard output if that is a terminal, else on standard error."""
        console = self.out if self.out.is_terminal and not self.as_json else SafeConsole(stderr=True)
        return Status("looking for tables", console=console) if console.is_terminal else None

    def _show_progress(self, folders: int) -> None:
        text = f"{self.tables} tables in {folders} folders, {self.unhealthy} not healthy"
        if self._spinner:
            self._spinner.update(data(text))
        elif time.perf_counter() - self._last_progress > PROGRESS_INTERVAL:
            self._last_progress = time.perf_counter()
            print(f"lakehand: {text} ...", file=sys.stderr, flush=True)
