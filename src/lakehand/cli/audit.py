# SPDX-License-Identifier: Apache-2.0
"""lakehand audit: who asked for what, what it changed, and what the answer was."""

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from lakehand.cli.options import Limit, Session
from lakehand.cli.views import brief, coloured, grid, limited, plain, with_more
from lakehand.client.documents import Document
from lakehand.output import join, when

SHORT = 60  # characters of the details in a list


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
