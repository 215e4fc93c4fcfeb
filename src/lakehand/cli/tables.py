# SPDX-License-Identifier: Apache-2.0
"""lakehand tables ...: register tables, show them, change their settings."""

from typing import Annotated, Any

import typer

from lakehand.cli import discover
from lakehand.cli.errors import CommandFailed
from lakehand.cli.options import URL, AsJson, Limit, TableName, Token, Url, Watch, pairs, words
from lakehand.cli.views import explanation_view, limited, name_of, table_view, tables_view
from lakehand.client import Client, Document, absolute_location, given
from lakehand.output import follow, print_document, print_line

app = typer.Typer(no_args_is_help=True, help="Register tables, show them, change their settings.")

Property = Annotated[
    list[str] | None, typer.Option("--property", "-p", metavar="KEY=VALUE", help="A property; repeatable.")
]
Owner = Annotated[str | None, typer.Option(help="Owner of the table; owners share the engine fairly.")]
Queue = Annotated[str | None, typer.Option(help="Queue of its operations.")]
Priority = Annotated[int | None, typer.Option(help="Higher runs sooner.")]
Scheduling = Annotated[
    str | None,
    typer.Option(help="writer: run the plans of the writer. service: plan and run, under the table's lock."),
]
Heartbeat = Annotated[
    float | None,
    typer.Option("--heartbeat-timeout", metavar="SECONDS", help="Check the table at least this often. Default 600."),
]


@app.command(
    epilog="lakehand tables add /data/trips --actions compaction,clean  ·  "
    "lakehand tables add s3://lake/sales/orders --db sales --name orders --owner finance"
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
    owner: Owner = None,
    queue: Queue = None,
    priority: Priority = None,
    scheduling: Scheduling = None,
    heartbeat_timeout: Heartbeat = None,
    property: Property = None,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Register a table. Registering it again changes nothing."""
    body = {
        "location": absolute_location(location), "format": format, "db_name": db, "table_name": name,
        "action_types": words(actions) if actions is not None else None, "owner": owner, "queue": queue,
        "priority": priority, "scheduling": scheduling, "heartbeat_timeout": heartbeat_timeout,
        "properties": pairs(property or [], "--property"),
    }  # fmt: skip
    print_document(Client(url, token).post("/api/v1/tables", given(body)), table_view, as_json=as_json)


@app.command("list", epilog="lakehand tables list --owner finance --json")
def list_tables(
    *,
    db: Annotated[str | None, typer.Option(help="Only of this database.")] = None,
    name: Annotated[str | None, typer.Option(help="Only of this name.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only of this owner.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only of this queue.")] = None,
    format: Annotated[str | None, typer.Option(help="Only of this format.")] = None,
    catalog: Annotated[str | None, typer.Option(help="Only of this catalog.")] = None,
    paused: Annotated[bool | None, typer.Option("--paused/--active", help="Only paused, or only active ones.")] = None,
    limit: Limit = 50,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List registered tables."""
    filters = {"db_name": db, "table_name": name, "owner": owner, "queue": queue, "paused": paused}
    filters |= {"format": format, "catalog": catalog}
    items = list(Client(url, token).pages("/api/v1/tables", filters, limit=limit + 1))
    print_document(limited(items, limit), tables_view, as_json=as_json)


@app.command("show", epilog="lakehand tables show sales.orders")
def show_table(table: TableName, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Show one table and its settings."""
    print_document(Client(url, token).table(table), table_view, as_json=as_json)


@app.command(
    epilog="lakehand tables change trips --actions +clustering  ·  lakehand tables change trips --actions -clean  ·  "
    "lakehand tables change trips --actions compaction,clean --priority 5"
)
def change(
    table: TableName,
    *,
    actions: Annotated[str | None, typer.Option(help="+a adds an action, -b removes one, a,b replaces all.")] = None,
    owner: Owner = None,
    queue: Queue = None,
    priority: Priority = None,
    scheduling: Scheduling = None,
    heartbeat_timeout: Heartbeat = None,
    property: Property = None,
    drop_property: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Remove a property.")] = None,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Change the settings of a table."""
    client = Client(url, token)
    known = client.table(table)
    body = given({"owner": owner, "queue": queue, "priority": priority, "scheduling": scheduling})
    body |= given({"heartbeat_timeout": heartbeat_timeout})
    if actions is not None:
        body["action_types"] = words(actions)
    if property or drop_property:
        body["properties"] = changed_properties(known["properties"], property or [], drop_property or [])
    if not body:
        raise CommandFailed("nothing to change: see lakehand tables change --help")
    print_document(client.patch(f"/api/v1/tables/{known['id']}", body), table_view, as_json=as_json)


def changed_properties(now: Document, added: list[str], dropped: list[str]) -> Document:
    kept = {key: value for key, value in now.items() if key not in dropped}
    return {**kept, **pairs(added, "--property")}


@app.command()
def pause(table: TableName, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Start no new operations of a table; running ones continue."""
    print_document(post_to(Client(url, token), table, "pause"), table_view, as_json=as_json)


@app.command()
def resume(table: TableName, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Resume a paused table."""
    print_document(post_to(Client(url, token), table, "resume"), table_view, as_json=as_json)


def post_to(client: Client, text: str, what: str) -> Any:
    return client.post(f"/api/v1/tables/{client.table(text)['id']}/{what}")


@app.command()
def remove(table: TableName, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Unregister a table; its data and its history stay."""
    client = Client(url, token)
    known = client.table(table)
    client.delete(f"/api/v1/tables/{known['id']}")
    if as_json:
        print_document(known, table_view, as_json=True)
    else:
        print_line(f"{name_of(known)} is no longer registered; its data is untouched")


@app.command(epilog="lakehand tables look trips --watch")
def look(
    table: TableName, *, watch: Watch = False, url: Url = URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Evaluate a table now, without waiting for a notification or its heartbeat timeout."""
    client = Client(url, token)
    path = f"/api/v1/tables/{client.table(table)['id']}"
    before = evaluations_of(client.get(f"{path}/explain"))
    client.post(f"{path}/look")
    if watch:
        follow(lambda: poll_evaluation(client, path, before), explanation_view, as_json=as_json)
    else:
        print_document(client.get(f"{path}/explain"), explanation_view, as_json=as_json)


def evaluations_of(explanation: Document) -> dict[str, str | None]:
    return {one["action"]: one["last_look"] for one in explanation["actions"] if one["wanted"]}


def poll_evaluation(client: Client, path: str, before: dict[str, str | None]) -> tuple[Document, bool]:
    """Final when every wanted action was evaluated again and nothing is in flight."""
    now = client.get(f"{path}/explain")
    is_evaluated = all(when != before.get(action) for action, when in evaluations_of(now).items())
    return now, is_evaluated and not any(one["unfinished"] for one in now["actions"])


app.command(epilog="lakehand tables discover /data  ·  lakehand tables discover s3://lake --register --owner finance")(
    discover.discover
)
