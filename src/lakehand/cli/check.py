# SPDX-License-Identifier: Apache-2.0
"""lakehand check: how tables fare and what Lakehand would do, without a service and without Spark."""

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehand.cli.check_screen import CheckScreen
from lakehand.cli.options import AsJson, pairs, whole_reference
from lakehand.cli.problems import CommandFailed, complain
from lakehand.cli.service import Config
from lakehand.domain.errors import LakehandError

if TYPE_CHECKING:
    from lakehand.app.checkup import Checked, Checkup
    from lakehand.app.discovery import DiscoveredTable, Finder, UnreadableFolder
    from lakehand.app.reading import Reading

THREADS = 8
AHEAD = 4 * THREADS  # tables that are found before the first of them is checked

Paths = Annotated[
    list[str], typer.Argument(metavar="PATH...", help="A table, a folder with tables, or CATALOG:db.table.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A property, as if it were the table's; may be given again."),
]
Way = Annotated[
    str | None,
    typer.Option("--scheduling", help="writer or service; without it, whichever of the two gets more done."),
]


def check(
    paths: Paths,
    *,
    set: Set = None,
    scheduling: Way = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="All that is known, also of many tables.")] = False,
    fail_on_need: Annotated[bool, typer.Option(help="Exit with 1 when a table needs something or is broken.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """How tables fare, and what Lakehand would do and why. Only reads; needs no service and no Spark."""
    reading = opened(config)
    checkup = checkup_of(reading, set or [], scheduling)
    screen = CheckScreen(as_json=as_json, long=long)
    finder = reading.finder()
    with screen:
        for checked in checked_tables(paths, reading, finder, checkup):
            screen.show(checked, folders=finder.folders)
    screen.sum_up()
    if screen.missing or (fail_on_need and screen.troubled):
        raise typer.Exit(1)


def opened(config: Path | None) -> "Reading":
    from lakehand.app.reading import broken, open_reading

    logging.getLogger().addHandler(logging.NullHandler())  # what a plugin logs is not the answer
    reading = open_reading(config)
    for sentence in broken(reading):
        complain(sentence)
    return reading


def checkup_of(reading: "Reading", given: list[str], scheduling: str | None) -> "Checkup":
    from lakehand.app.checkup import Checkup
    from lakehand.domain.tables import Scheduling

    if scheduling not in (None, *(str(way) for way in Scheduling)):
        raise CommandFailed(f"--scheduling {scheduling!r} is not known: say writer or service")
    way = Scheduling(scheduling) if scheduling else None
    return Checkup(plugins=reading.plugins, properties=dict(pairs(given, "--set")), scheduling=way)


def checked_tables(
    paths: Iterable[str], reading: "Reading", finder: "Finder", checkup: "Checkup"
) -> "Iterator[Checked]":
    """Each table as soon as it was looked at; a few are found ahead, so that memory does not grow with the lake."""
    found = found_tables(paths, reading, finder)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="check") as pool:
        waiting: set[Future[Checked]] = set()
        while True:
            waiting |= {pool.submit(looked_at, one, checkup) for one in islice(found, AHEAD - len(waiting))}
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


def found_tables(
    paths: Iterable[str], reading: "Reading", finder: "Finder"
) -> "Iterator[DiscoveredTable | UnreadableFolder | LakehandError]":
    for path in paths:
        count = 0
        try:
            for found in reading.tables_of(whole_reference(path), finder):
                count += 1
                yield found
            if count == 0:
                known = ", ".join(sorted(reading.plugins.formats))
                yield CommandFailed(f"{path} is no table and has none below it; known formats are {known}")
        except LakehandError as problem:
            yield problem


def looked_at(found: "DiscoveredTable | UnreadableFolder | LakehandError", checkup: "Checkup") -> "Checked":
    from lakehand.app.checkup import Checked
    from lakehand.app.discovery import UnreadableFolder

    if isinstance(found, LakehandError):
        return Checked(location="", problem=str(found))
    return (
        Checked(location=found.location, problem=found.reason)
        if isinstance(found, UnreadableFolder)
        else checkup.check(found)
    )
