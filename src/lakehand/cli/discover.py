# SPDX-License-Identifier: Apache-2.0
"""lakehand tables discover: finds tables of all formats under a folder or bucket, and registers them if asked to."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakehand.cli.check import opened
from lakehand.cli.check_views import counted
from lakehand.cli.client import Client, Document, given
from lakehand.cli.options import URL, AsJson, Token, Url, whole_reference, words
from lakehand.cli.problems import CommandFailed
from lakehand.cli.screen import Screen, console, data, joined
from lakehand.cli.service import Config
from lakehand.cli.times import span

if TYPE_CHECKING:
    from lakehand.app.discovery import DiscoveredTable

COLOURS = {"registered": "green", "known": "dim", "refused": "red", "unread": "red"}


def discover(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder or bucket, or CATALOG: of the settings.")],
    *,
    register: Annotated[bool, typer.Option("--register", help="Register what is found with the service.")] = False,
    actions: Annotated[
        str | None, typer.Option(help="What Lakehand may do, comma separated; without it, what tables add would.")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Whose tables they are.")] = None,
    queue: Annotated[str | None, typer.Option(help="The queue their operations wait in.")] = None,
    config: Config = None,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Find tables of all formats; goes into no table. Needs a service only to register them."""
    reading = opened(config)
    finder = reading.finder()
    client = Client(url, token) if register else None
    wanted = given({"owner": owner, "queue": queue, "action_types": words(actions) if actions else None})
    out, began, seen = console(), time.perf_counter(), Counter[str]()
    waiting = Screen(stderr=True) if as_json or not out.is_terminal else out
    with waiting.status("looking for tables") as status:
        for document in documents(reading.tables_of(whole_reference(path), finder), client, wanted):
            seen[document["format"] or "unread"] += 1
            print(json.dumps(document), flush=True) if as_json else out.print(line(document), soft_wrap=True)
            status.update(data(f"{sum(seen.values())} tables in {finder.folders} folders"))
    if not seen:
        raise CommandFailed(f"no table of {', '.join(sorted(reading.plugins.formats))} is under {path}")
    if not as_json:
        took = span(time.perf_counter() - began)
        out.print(f"{seen.total()} tables{counted(seen)} in {finder.folders} folders, {took}", style="bold")


def documents(found: Iterator[object], client: Client | None, wanted: Document) -> Iterator[Document]:
    from lakehand.app.discovery import DiscoveredTable, UnreadableFolder

    for one in found:
        if isinstance(one, DiscoveredTable):
            yield registered(one, client, wanted) if client else described(one)
        elif isinstance(one, UnreadableFolder):
            yield {"location": one.location, "format": "", "also": [], "outcome": "unread", "reason": one.reason}


def described(found: "DiscoveredTable") -> Document:
    document: Document = {"location": found.location, "format": str(found.format), "also": [*map(str, found.also)]}
    reference = found.reference
    if reference.catalog is not None:
        document |= {
            "catalog": reference.catalog.name,
            "db_name": reference.db_name,
            "table_name": reference.table_name,
        }
    return document


def registered(found: "DiscoveredTable", client: Client, wanted: Document) -> Document:
    """One that is refused stops no other."""
    document = described(found)
    body: Document = {key: value for key, value in document.items() if key != "also"}
    try:
        table, is_new = client.put("/api/v1/tables", body | wanted)
    except CommandFailed as problem:
        return {**document, "outcome": "refused", "reason": str(problem)}
    return {**document, "outcome": "registered" if is_new else "known", "id": table["id"]}


def line(document: Document) -> Text:
    outcome = document.get("outcome", "")
    said = data(f"{outcome:<10} ", COLOURS[outcome]) if outcome else ""
    also = data(f"  (also {', '.join(document['also'])})", "dim") if document["also"] else ""
    why = f"  {document['reason']}" if document.get("reason") else ""
    shape = document["format"] or "?"
    return joined(said, f"{shape:<8} {document['location']}", also, why)
