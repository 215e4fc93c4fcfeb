# SPDX-License-Identifier: Apache-2.0
"""lakehand drain and instances: take an instance out of service and back, and see which ones there are."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from lakehand.cli.errors import CommandFailed
from lakehand.cli.options import Session
from lakehand.cli.views import coloured, grid
from lakehand.client.documents import Document
from lakehand.output import data, when

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
