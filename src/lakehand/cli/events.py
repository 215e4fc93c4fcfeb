# SPDX-License-Identifier: Apache-2.0
"""lakehand events ... and audit: what happened, who asked for what; and a commit event, to try notifications."""

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from lakehand.cli.options import CommandFailed, Limit, Session, add_command
from lakehand.cli.views import brief, coloured, grid, limited, plain, with_more
from lakehand.client import Document
from lakehand.output import join, when

app = typer.Typer(no_args_is_help=True, help="List what happened, and send a commit event.")
OUTCOMES = {
    "stored": "stored: the table's actions are due now",
    "ignored": "ignored",
    "waiting": "waiting",
    "refused": "refused",
}
SHORT = 60  # characters of the details in a list


@add_command(app, "list", epilog="lakehand events list --kind commits.  ·  lakehand events list --table sales.orders")
def list_events(
    *,
    table: Annotated[str | None, typer.Option("--table", help="Only of this table: id, name or location.")] = None,
    operation: Annotated[int | None, typer.Option("--operation", help="Only of this operation.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only this kind, or a prefix that ends in a dot: intake.")
    ] = None,
    limit: Limit = 50,
    session: Session,
) -> None:
    """List what happened, newest first."""
    found = session.client.events.list(table=table, operation=operation, kind=kind, limit=limit + 1)
    session.show(limited([one.raw for one in found], limit), events_view)


def events_view(document: Document) -> RenderableType:
    if not document["items"]:
        return Text("nothing happened yet")
    rows = grid("WHEN", "TIMES", "KIND", "TABLE", "WHAT")
    for one in document["items"]:
        rows.add_row(when(one["at"]), str(one["times"]), one["kind"], str(one["table"] or ""), brief(one["message"]))
    return with_more(rows, document)


@add_command(app, epilog="lakehand events send /data/trips  ·  lakehand events send s3://lake/orders --version 42")
def send(
    location: Annotated[
        str, typer.Argument(metavar="LOCATION", help="Of the table; or catalog:db.name, or db.name of a known one.")
    ],
    *,
    format: Annotated[str, typer.Option("--format", help="Format of the table.")] = "",
    version: Annotated[str, typer.Option("--version", help="Instant, snapshot or version of the commit.")] = "",
    partition: Annotated[
        list[str] | None, typer.Option("--partition", help="One that changed: day=2026-11-15. Repeat for more.")
    ] = None,
    session: Session,
) -> None:
    """Send one commit event, as a catalog or a store would, and show what became of it."""
    answer = session.client.events.send(location, format=format, version=version, partitions=partition or ())
    session.show(answer.raw, answer_view)
    if answer.refused:
        raise CommandFailed("the event was refused")


def answer_view(answer: Document) -> RenderableType:
    lines = [words for outcome, words in OUTCOMES.items() if answer[outcome]]
    reasons = [f"{one['example']}: {one['reason']}" for one in answer["reasons"]]
    return Text("\n".join([*lines, *reasons]))


def audit(
    *,
    caller: Annotated[str | None, typer.Option("--caller", help="Only of this caller.")] = None,
    action: Annotated[
        str | None, typer.Option("--action", help="Only this action, or a prefix that ends in a dot: table.")
    ] = None,
    table: Annotated[str | None, typer.Option("--table", help="Only of this table: id, name or location.")] = None,
    operation: Annotated[int | None, typer.Option("--operation", help="Only of this operation.")] = None,
    limit: Limit = 50,
    session: Session,
) -> None:
    """Show who asked for what, from where, what it changed and the answer, newest first. For operators and admins."""
    known = session.client.tables.get(table) if table else None
    found = session.client.audit.list(caller=caller, action=action, table=known, operation=operation, limit=limit + 1)
    session.show(limited([one.raw for one in found], limit), audit_view)


def audit_view(document: Document) -> RenderableType:
    if not document["items"]:
        return Text("nothing was asked for yet")
    rows = grid("WHEN", "WHO", "FROM", "WHAT", "OF WHAT", "DETAILS", "ANSWER")
    for one in document["items"]:
        rows.add_row(
            when(one["at"]), f"{one['caller']} ({one['role']})", f"{one['address']} {one['via']}", one["action"],
            one["subject"], details(one), join(coloured(one["answer"] or "unknown"), why(one)),
        )  # fmt: skip
    return with_more(rows, document)


def details(one: Document) -> str:
    """What was before and after; else what was given. --json has everything."""
    given = plain({key: value for key, value in one["detail"].items() if value not in ("", 0, False)})
    text = f"{plain(one['before'])} → {plain(one['after'])}" if one["before"] and one["after"] else given
    return text if len(text) <= SHORT else f"{text[:SHORT]} …"


def why(one: Document) -> str:
    return f": {brief(one['message'])}" if one["message"] else ""
