# SPDX-License-Identifier: Apache-2.0
"""lakehand maintain: does to one table what it needs, once, by the service's own code; no service has to run."""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from lakehand.cli.check import Set, checkup_of, opened
from lakehand.cli.options import AsJson, pairs, whole_reference
from lakehand.cli.problems import CommandFailed
from lakehand.cli.service import Config

if TYPE_CHECKING:
    from lakehand.app.checkup import Checked
    from lakehand.app.discovery import DiscoveredTable
    from lakehand.app.once import Wish
    from lakehand.app.reading import Reading
    from lakehand.cli.maintain_screen import MaintainScreen
    from lakehand.domain.actions import Action
    from lakehand.domain.operations import Operation

OWN = "maintain"  # the folder in a given home: whatever service has that home is not in the way


def maintain(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A table's folder or URI, or CATALOG:db.table.")],
    *,
    action: Annotated[
        list[str] | None,
        typer.Option(help="Do this, needed or not; may be given again. Without it: whatever is needed."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done, and list what would be deleted.")
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Do it even where the job finds the result implausible. Needs --action.")
    ] = False,
    set: Set = None,
    scheduling: Annotated[str | None, typer.Option(help="writer or service; without it, whichever fits.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: Annotated[
        Path | None, typer.Option(help="Keep database and logs in a folder of this home. Without it: gone at the end.")
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Do to a table what it needs, once, and show it before and after. Starts Spark, and ends it."""
    from lakehand.cli.maintain_screen import MaintainScreen

    reading = opened(config)
    found = the_table(reading, path)
    wanted = asked_actions(reading, found, action or [], confirm=confirm)
    checkup = checkup_of(reading, set or [], scheduling)
    screen = MaintainScreen(as_json=as_json)
    before = checkup.check(found)
    if before.problem:
        raise CommandFailed(f"{found.location} cannot be read: {before.problem}")
    screen.show_decisions(before, wanted)
    wish = wish_of(before, wanted, dry_run=dry_run, confirm=confirm)
    if wish is None or not may_go_on(dry_run=dry_run, yes=yes, as_json=as_json):
        screen.end_without_work(before)
        return
    with a_home(home) as folder:
        done = perform(
            found, before, wish, reading=reading, home=folder, screen=screen, properties=pairs(set or [], "--set")
        )
        after = checkup.check(found)
        is_good = screen.show_outcome(before, after, done, folder=folder)
        if not is_good:
            raise typer.Exit(1)


def the_table(reading: "Reading", path: str) -> "DiscoveredTable":
    from lakehand.app.discovery import DiscoveredTable

    found = list(reading.tables_of(whole_reference(path), reading.finder()))
    tables = [one for one in found if isinstance(one, DiscoveredTable)]
    if not tables:
        why = f": {found[0].reason}" if found and not isinstance(found[0], DiscoveredTable) else ""
        raise CommandFailed(f"{path} is no table of {', '.join(sorted(reading.plugins.formats))}{why}")
    if len(tables) > 1:
        raise CommandFailed(f"there are {len(tables)} tables below {path}: name one; lakehand check {path} lists them")
    return tables[0]


def asked_actions(
    reading: "Reading", found: "DiscoveredTable", names: list[str], *, confirm: bool
) -> "tuple[Action, ...]":
    from lakehand.domain.actions import Action

    if confirm and not names:
        raise CommandFailed("--confirm needs --action: say what it is that you confirm")
    asked = tuple(dict.fromkeys(Action(name) for name in names))
    reading.plugins.check(found.format, frozenset(asked))
    return asked


def wish_of(before: "Checked", asked: "tuple[Action, ...]", *, dry_run: bool, confirm: bool) -> "Wish | None":
    """What the service is to be given; None when there is nothing that needs Spark."""
    from lakehand.app.once import Wish

    if dry_run:
        listed = tuple(
            d.action for d in before.decisions if d.lists_first and (d.action in asked if asked else d.needed)
        )
        return Wish(actions=listed, dry_run=True) if listed else None
    return Wish(actions=asked, confirm=confirm) if asked or before.needs else None


def may_go_on(*, dry_run: bool, yes: bool, as_json: bool) -> bool:
    """Asks whoever sits at a terminal; a program that calls us has asked itself."""
    if dry_run or yes or as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    return typer.confirm("Do it?", default=True)


@contextmanager
def a_home(given: Path | None) -> Iterator[Path]:
    """A folder that is gone at the end, unless it was asked for or something went wrong and its logs may help."""
    import shutil

    if given is not None:
        yield given.expanduser().absolute() / OWN
        return
    folder = Path(mkdtemp(prefix="lakehand-maintain-"))
    try:
        yield folder
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def perform(
    found: "DiscoveredTable",
    before: "Checked",
    wish: "Wish",
    *,
    reading: "Reading",
    home: Path,
    screen: "MaintainScreen",
    properties: Mapping[str, str],
) -> "list[Operation]":
    from lakehand.app.once import serving_once

    with interruptible():
        screen.say(f"starting Spark; logs are in {home}")
        with serving_once(found, before, wish, reading=reading, home=home, properties=properties) as once:
            try:
                with screen.progress():
                    return once.perform(wish, screen.on_change)
            except KeyboardInterrupt:
                screen.say("stopping what runs; the table stays as it is or as far as it came")
                once.cancel()
                screen.on_change(once.operations())
                raise


@contextmanager
def interruptible() -> Iterator[None]:
    """A polite request to end is as good as Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
