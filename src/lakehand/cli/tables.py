# SPDX-License-Identifier: Apache-2.0
"""lakehand tables ... and explain: discover and register tables, show them, change them, and say why they wait."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakehand.cli import history
from lakehand.cli.check import open_local_reader
from lakehand.cli.options import (
    CommandFailed,
    Config,
    Limit,
    Session,
    TableName,
    Watch,
    absolute_reference,
    add_command,
    pairs,
    words,
)
from lakehand.cli.views import explanation_view, limited, list_counts, name_of, table_view, tables_view
from lakehand.client import Document, absolute_location, given
from lakehand.client.errors import RequestFailed
from lakehand.domain.texts import span
from lakehand.output import SafeConsole, data, join, print_line, stdout_console

if TYPE_CHECKING:
    from datetime import datetime

    from lakehand.client import Explanation, LakehandClient
    from lakehand.local.discovery import DiscoveredTable

FOUND_COLOURS = {"registered": "green", "known": "dim", "refused": "red", "unread": "red"}
app = typer.Typer(no_args_is_help=True, help="Register tables, show them, change their settings.")


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
        for document in found_documents(reader.tables_of(absolute_reference(path), finder), client, wanted):
            seen[document["format"] or "unread"] += 1
            print(json.dumps(document), flush=True) if session.as_json else out.print(
                found_line(document), soft_wrap=True
            )
            status.update(data(f"{sum(seen.values())} tables in {finder.folders} folders"))
    if not seen:
        raise CommandFailed(f"no table of {', '.join(sorted(reader.plugins.formats))} is under {path}")
    if not session.as_json:
        took = span(time.perf_counter() - began)
        out.print(f"{seen.total()} tables{list_counts(seen)} in {finder.folders} folders, {took}", style="bold")


def found_documents(found: Iterator[object], client: "LakehandClient | None", wanted: Document) -> Iterator[Document]:
    from lakehand.local.discovery import DiscoveredTable, UnreadableFolder

    for one in found:
        if isinstance(one, DiscoveredTable):
            yield register_found(one, client, wanted) if client else describe(one)
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


def register_found(found: "DiscoveredTable", client: "LakehandClient", wanted: Document) -> Document:
    """A refused table does not stop the others."""
    document = describe(found)
    body: Document = {key: value for key, value in document.items() if key != "also"}
    try:
        table = client.tables.add(**body | wanted)
    except RequestFailed as problem:
        return {**document, "outcome": "refused", "reason": str(problem)}
    return {**document, "outcome": "registered" if table.is_new else "known", "id": table.id}


def found_line(document: Document) -> Text:
    outcome = document.get("outcome", "")
    label = data(f"{outcome:<10} ", FOUND_COLOURS[outcome]) if outcome else ""
    also = data(f"  (also {', '.join(document['also'])})", "dim") if document["also"] else ""
    why = f"  {document['reason']}" if document.get("reason") else ""
    shape = document["format"] or "?"
    return join(label, f"{shape:<8} {document['location']}", also, why)


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    owner: Annotated[str | None, typer.Option(help="Owner of the table; owners share the engine fairly.")] = None
    queue: Annotated[str | None, typer.Option(help="Queue of its operations.")] = None
    priority: Annotated[int | None, typer.Option(help="Higher runs sooner.")] = None
    scheduling: Annotated[
        str | None,
        typer.Option(help="writer: run the plans of the writer. service: plan and run, under the table's lock."),
    ] = None
    heartbeat_timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Check the table at least this often. Default 600.")
    ] = None
    property: Annotated[
        list[str] | None, typer.Option("--property", "-p", metavar="KEY=VALUE", help="A property; repeatable.")
    ] = None

    def body(self) -> Document:
        return {name: value for name, value in given(asdict(self)).items() if name != "property"}


@add_command(
    app,
    epilog="lakehand tables add /data/trips --actions compaction,clean  ·  "
    "lakehand tables add s3://lake/sales/orders --db sales --name orders --owner finance",
)
def add(
    location: Annotated[str, typer.Argument(help="The table's base path or URI, under one of the warehouses.")],
    *,
    format: Annotated[
        str | None, typer.Option(help="Format of the table; default: recognised at the location.")
    ] = None,
    db: Annotated[str, typer.Option(help="Database of the table.")] = "",
    name: Annotated[str, typer.Option(help="Name of the table; default: the last part of the location.")] = "",
    actions: Annotated[
        str | None,
        typer.Option(help="Actions to enable, comma separated; default: all of the format (Hudi: compaction)."),
    ] = None,
    settings: TableSettings,
    session: Session,
) -> None:
    """Register a table. Registering it again changes nothing."""
    added = session.client.tables.add(
        absolute_location(location), format=format, db_name=db, table_name=name,
        action_types=words(actions) if actions is not None else None,
        properties=pairs(settings.property, "--property"), **settings.body(),
    )  # fmt: skip
    session.show(added.raw, table_view)


@add_command(app, "list", epilog="lakehand tables list --owner finance --json")
def list_tables(
    *,
    db: Annotated[str | None, typer.Option(help="Only tables of this database.")] = None,
    name: Annotated[str | None, typer.Option(help="Only tables of this name.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only tables of this owner.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only tables of this queue.")] = None,
    format: Annotated[str | None, typer.Option(help="Only tables of this format.")] = None,
    catalog: Annotated[str | None, typer.Option(help="Only tables of this catalog.")] = None,
    paused: Annotated[bool | None, typer.Option("--paused/--active", help="Only paused or only active tables.")] = None,
    state: Annotated[str | None, typer.Option(help="Only tables in this state, for instance failed.")] = None,
    search: Annotated[str | None, typer.Option(help="Only tables with this in their name or location.")] = None,
    limit: Limit = 50,
    session: Session,
) -> None:
    """List registered tables."""
    found = session.client.tables.list(
        db_name=db, table_name=name, owner=owner, queue=queue, paused=paused, format=format, catalog=catalog,
        state=state, search=search, limit=limit + 1,
    )  # fmt: skip
    session.show(limited([one.raw for one in found], limit), tables_view)


@add_command(app, "show", epilog="lakehand tables show sales.orders")
def show_table(table: TableName, session: Session) -> None:
    """Show one table and its settings."""
    session.show(session.client.tables.get(table).raw, table_view)


@add_command(
    app,
    epilog="lakehand tables change trips --actions +clustering  ·  lakehand tables change trips --actions -clean  ·  "
    "lakehand tables change trips --actions compaction,clean --priority 5",
)
def change(
    table: TableName,
    *,
    actions: Annotated[str | None, typer.Option(help="+a adds an action, -b removes one, a,b replaces all.")] = None,
    drop_property: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Remove a property.")] = None,
    settings: TableSettings,
    session: Session,
) -> None:
    """Change the settings of a table."""
    known = session.client.tables.get(table)
    body = settings.body()
    if actions is not None:
        body["action_types"] = words(actions)
    if settings.property or drop_property:
        kept = {key: value for key, value in known.properties.items() if key not in (drop_property or [])}
        body["properties"] = {**kept, **pairs(settings.property, "--property")}
    if not body:
        raise CommandFailed("nothing to change: see lakehand tables change --help")
    session.show(session.client.tables.change(known, **body).raw, table_view)


@add_command(app)
def pause(table: TableName, session: Session) -> None:
    """Start no new operations of a table; running ones continue."""
    session.show(session.client.tables.pause(table).raw, table_view)


@add_command(app)
def resume(table: TableName, session: Session) -> None:
    """Resume a paused table."""
    session.show(session.client.tables.resume(table).raw, table_view)


@add_command(app)
def remove(table: TableName, session: Session) -> None:
    """Unregister a table; its data and its history stay."""
    known = session.client.tables.get(table)
    session.client.tables.remove(known)
    if session.as_json:
        session.show(known.raw, table_view)
    else:
        print_line(f"{name_of(known.raw)} is no longer registered; its data is untouched")


@add_command(app, epilog="lakehand tables evaluate trips --watch")
def evaluate(table: TableName, *, watch: Watch = False, session: Session) -> None:
    """Evaluate a table now, without waiting for a notification or its heartbeat timeout."""
    tables = session.client.tables
    known = tables.get(table)
    before = evaluations_of(tables.explain(known))
    tables.evaluate(known)
    if watch:
        session.follow(lambda: poll_evaluation(tables.explain(known), before), explanation_view)
    else:
        session.show(tables.explain(known).raw, explanation_view)


def explain(table: TableName, session: Session) -> None:
    """Show why something runs on a table or does not, and when it is evaluated next."""
    tables = session.client.tables
    session.show(tables.explain(tables.get(table)).raw, explanation_view)


@app.command("look", hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def evaluate_by_its_old_name() -> None:
    raise CommandFailed("this is called evaluate now: lakehand tables evaluate TABLE")


def evaluations_of(explanation: "Explanation") -> "dict[str, datetime | None]":
    return {one.action: one.evaluated_at for one in explanation.actions if one.wanted}


def poll_evaluation(now: "Explanation", before: "dict[str, datetime | None]") -> tuple[Document, bool]:
    """Final when every wanted action was evaluated again and nothing is in flight."""
    is_evaluated = all(when != before.get(action) for action, when in evaluations_of(now).items())
    return now.raw, is_evaluated and not any(one.unfinished for one in now.actions)


add_command(
    app, epilog="lakehand tables history sales.orders --since 7d  ·  lakehand tables history trips --number small_bytes"
)(history.history)
add_command(
    app, epilog="lakehand tables discover /data  ·  lakehand tables discover s3://lake --register --owner finance"
)(discover)
