# SPDX-License-Identifier: Apache-2.0
"""lakehand explain, plugins and version: what the service knows about a table, and about itself."""

import json

from rich.console import Group, RenderableType

from lakehand import __version__
from lakehand.cli.options import Session, TableName
from lakehand.cli.views import brief, coloured, explanation_view, grid
from lakehand.client.documents import Document
from lakehand.client.errors import RequestFailed
from lakehand.output import print_line, span, when


def explain(table: TableName, session: Session) -> None:
    """Show why something runs on a table or does not, and when it is evaluated next."""
    tables = session.client.tables
    session.show(tables.explain(tables.get(table)).raw, explanation_view)


def plugins(session: Session) -> None:
    """List formats, factories and engines: what each does, when it runs, its state and why."""
    session.show({"items": [one.raw for one in session.client.plugins()]}, plugins_view)


def version(session: Session) -> None:
    """Show the version of this command, and of the service if it answers."""
    try:
        service = session.client.version().raw
    except RequestFailed as error:
        service = {"problem": str(error)}
    if session.as_json:
        print(json.dumps({"command": __version__, "url": session.url, "service": service}, indent=2))
    else:
        print_line(f"lakehand {__version__}")
        print_line(f"service  {service.get('version') or 'not reachable'} at {session.url}")


def plugins_view(document: Document) -> RenderableType:
    """Every plugin, and below it what each factory does and when."""
    rows = grid("KIND", "NAME", "STATE", "FROM", "PRIORITY", "ERRORS", "DOES", "WHY")
    for one in document["items"]:
        origin = f"{one.get('distribution', '')} {one.get('version', '')}"
        rows.add_row(
            one["kind"], one["name"], coloured(one["state"]), origin, str(one.get("priority", 0)),
            str(one.get("errors", 0) + one.get("hangs", 0)), summary_of(one), brief(reason_of(one)),
        )  # fmt: skip
    pairs = [(one, pair) for one in document["items"] for pair in one.get("strategies") or []]
    if not pairs:
        return rows
    strategies = grid("FORMAT", "ACTION", "BY", "RUNS", "AT ONCE", "DRY RUN")
    for one, pair in pairs:
        by = one["name"] if pair["is_used"] else f"{one['name']} (overridden)"
        strategies.add_row(
            pair["format"], pair["action"], by, trigger_of(pair), str(pair["parallelism"] or "any"),
            "yes" if pair["dry_run"] else "",
        )  # fmt: skip
    return Group(rows, "", strategies)


def summary_of(plugin: Document) -> str:
    pairs = plugin.get("pairs") or {}
    return ", ".join(f"{on}: {len(actions)} actions" if actions else on for on, actions in pairs.items())


def reason_of(plugin: Document) -> str:
    """Why the plugin is in its state; without a reason, its last error."""
    if plugin.get("reason"):
        return str(plugin["reason"])
    return f"{when(plugin.get('last_error_at'))}: {plugin['last_error']}" if plugin.get("last_error") else ""


def trigger_of(pair: Document) -> str:
    triggers = ["on change"] if pair["on_new_snapshot"] else []
    if pair["interval_seconds"]:
        triggers.append(f"every {span(pair['interval_seconds'])}")
    return ", ".join(triggers)
