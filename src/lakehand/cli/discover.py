# SPDX-License-Identifier: Apache-2.0
"""lakehand tables discover: finds tables of all formats under a folder or bucket, and registers them on request."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakehand.cli.check import open_local_reader
from lakehand.cli.errors import CommandFailed
from lakehand.cli.options import Config, Session, absolute_reference, words
from lakehand.cli.views import list_counts
from lakehand.client.documents import Document, given
from lakehand.client.errors import RequestFailed
from lakehand.output import SafeConsole, data, join, span, stdout_console

if TYPE_CHECKING:
    from lakehand.client import LakehandClient
    from lakehand.local.discovery import DiscoveredTable

COLOURS = {"registered": "green", "known": "dim", "refused": "red", "unread": "red"}


def discover(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder, a bucket, or CATALOG: of the settings.")],
    *,
    register: Annotated[bool, typer.Option("--register", help="Register the tables with the service.")] = False,
    actions: Annotated[
        str | None, typer.Option(help="Actions to enable, comma separated; default: as tables add.")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Owner of the tables.")] = None,
    queue: Annotated[str | None, typer.Option(help="Queue of their operations.")] = None,
    config: Config = None,
    session: Session,
) -> None:
    """Find tables of all formats. Only registering them needs a service."""
    reader = open_local_reader(config)
    finder = reader.finder()
    client = session.client if register else None
    wanted = given({"owner": owner, "queue": queue, "action_types": words(actions) if actions else None})
    out, began, seen = stdout_console(), time.perf_counter(), Counter[str]()
    progress = SafeConsole(stderr=True) if session.as_json or not out.is_terminal else out
    with progress.status("looking for tables") as status:
        for document in documents(reader.tables_of(absolute_reference(path), finder), client, wanted):
            seen[document["format"] or "unread"] += 1
            print(json.dumps(document), flush=True) if session.as_json else out.print(line(document), soft_wrap=True)
            status.update(data(f"{sum(seen.values())} tables in {finder.folders} folders"))
    if not seen:
        raise CommandFailed(f"no table of {', '.join(sorted(reader.plugins.formats))} is under {path}")
    if not session.as_json:
        took = span(time.perf_counter() - began)
        out.print(f"{seen.total()} tables{list_counts(seen)} in {finder.folders} folders, {took}", style="bold")


def documents(found: Iterator[object], client: "LakehandClient | None", wanted: Document) -> Iterator[Document]:
    from lakehand.local.discovery import DiscoveredTable, UnreadableFolder

    for one in found:
        if isinstance(one, DiscoveredTable):
            yield register(one, client, wanted) if client else describe(one)
        elif isinstance(one, UnreadableFolder):
            yield {"location": one.location, "format": "", "also": [], "outcome": "unread", "reason": one.reason}


def describe(found: "DiscoveredTable") -> Document:
    document: Document = {"location": found.location, "format": str(found.format), "also": [*map(str, found.also)]}
    reference = found.reference
    if reference.catalog is not None:
        document |= {
            "catalog": reference.catalog.name,
            "db_name": reference.db_name,
            "table_name": reference.table_name,
        }
    return document


def register(found: "DiscoveredTable", client: "LakehandClient", wanted: Document) -> Document:
    """A refused table does not stop the others."""
    document = describe(found)
    body: Document = {key: value for key, value in document.items() if key != "also"}
    try:
        table = client.tables.add(**body | wanted)
    except RequestFailed as problem:
        return {**document, "outcome": "refused", "reason": str(problem)}
    return {**document, "outcome": "registered" if table.is_new else "known", "id": table.id}


def line(document: Document) -> Text:
    outcome = document.get("outcome", "")
    label = data(f"{outcome:<10} ", COLOURS[outcome]) if outcome else ""
    also = data(f"  (also {', '.join(document['also'])})", "dim") if document["also"] else ""
    why = f"  {document['reason']}" if document.get("reason") else ""
    shape = document["format"] or "?"
    return join(label, f"{shape:<8} {document['location']}", also, why)
