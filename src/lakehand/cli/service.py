# SPDX-License-Identifier: Apache-2.0
"""lakehand drain, instances, plugins and version: the service itself, and taking an instance of it out of service."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType

from lakehand import __version__
from lakehand.cli.options import CommandFailed, Session
from lakehand.cli.views import brief, coloured, grid
from lakehand.client import Document
from lakehand.client.errors import RequestFailed
from lakehand.domain.texts import span
from lakehand.output import data, print_line, when

COUNTS = ("operations", "evaluations", "messages")
DONE = ("drained", "serving")


def drain(
    *,
    home: Annotated[
        Path | None, typer.Option("--home", help="Drain the instance on this machine that has this home.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show progress, and return when it holds nothing.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", min=0, metavar="SECONDS",
            help="Stop running work after this and hand it over; default: let it finish.",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take on work again.")] = False,
    session: Session,
) -> None:  # fmt: skip
    """Let one instance finish or hand over its work and claim nothing new. It goes on answering requests."""
    session = replace(session, url=address_in(home)) if home else session
    drains = session.client.drains
    report = drains.end() if undo else drains.begin(timeout=timeout)
    if wait and not undo:
        session.follow(lambda: fetch(session), drain_view)
    else:
        session.show(report.raw, drain_view)


def fetch(session: Session) -> tuple[Document, bool]:
    report = session.client.drains.show()
    return report.raw, report.state in DONE  # somebody may have undone it meanwhile


def address_in(home: Path) -> str:
    """Where the instance with this home answers: it says so while it runs."""
    file = home.expanduser() / "address.json"
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError):
        raise CommandFailed(f"no instance runs with the home {home}: there is no address in {file}") from None


def drain_view(document: Document) -> RenderableType:
    left = ", ".join(f"{document[one]} {one}" for one in COUNTS if document[one])
    held = {"drained": "it holds nothing and can be stopped", "serving": "it takes on work"}
    return data(f"{document['instance']} is {document['state']}: {held.get(document['state']) or f'{left} left'}")


def instances(session: Session) -> None:
    """List the instances that share the database, with their versions and whether they take on work."""
    session.show({"items": [one.raw for one in session.client.instances()]}, instances_view)


def instances_view(document: Document) -> RenderableType:
    rows = grid("INSTANCE", "HOST", "VERSION", "STATE", "STARTED", "SEEN")
    for one in document["items"]:
        rows.add_row(
            one["id"],
            one["host"],
            one["version"],
            coloured(one.get("state") or "–"),
            when(one["started_at"]),
            when(one["seen_at"]),
        )
    return rows


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
