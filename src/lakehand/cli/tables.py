# SPDX-License-Identifier: Apache-2.0
"""lakehand tables ...: register tables, look at them, change what is wanted for them."""

from typing import Annotated, Any

import typer

from lakehand.cli import discover
from lakehand.cli.client import Client, Document, given, whole_location
from lakehand.cli.options import URL, AsJson, Limit, TableName, Token, Url, Watch, pairs, words
from lakehand.cli.problems import CommandFailed
from lakehand.cli.screen import follow, say, show
from lakehand.cli.views import explanation_view, name_of, table_view, tables_view

app = typer.Typer(no_args_is_help=True, help="Register tables, look at them, change what is wanted for them.")

Property = Annotated[
    list[str] | None, typer.Option("--property", "-p", metavar="KEY=VALUE", help="A property; may be given again.")
]
Owner = Annotated[str | None, typer.Option(help="Whose table it is: owners share the engine fairly.")]
Queue = Annotated[str | None, typer.Option(help="The queue its operations wait in.")]
Priority = Annotated[int | None, typer.Option(help="The higher, the sooner.")]
Scheduling = Annotated[
    str | None,
    typer.Option(help="writer: run the plans that the writer leaves. service: plan and run, under the table's lock."),
]
Heartbeat = Annotated[
    float | None,
    typer.Option("--heartbeat-timeout", metavar="SECONDS", help="Look at the table at least this often. Default 600."),
]


@app.command(
    epilog="lakehand tables add /data/trips --actions compaction,clean  ·  "
    "lakehand tables add s3://lake/sales/orders --db sales --name orders --owner finance"
)
def add(
    location: Annotated[str, typer.Argument(help="The table's base path or URI, under one of the warehouses.")],
    *,
    format: Annotated[
        str | None, typer.Option(help="The table's format; without it, what is found at the location, else hudi.")
    ] = None,
    db: Annotated[str, typer.Option(help="The database it belongs to.")] = "",
    name: Annotated[str, typer.Option(help="Its name; without it the last part of the location.")] = "",
    actions: Annotated[
        str | None,
        typer.Option(
            help="What Lakehand may do, comma separated; without it, all that the format has (Hudi: compaction)."
        ),
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
    """Register a table. A second time changes nothing."""
    body = {
        "location": whole_location(location), "format": format, "db_name": db, "table_name": name,
        "action_types": words(actions) if actions is not None else None, "owner": owner, "queue": queue,
        "priority": priority, "scheduling": scheduling, "heartbeat_timeout": heartbeat_timeout,
        "properties": pairs(property or [], "--property"),
    }  # fmt: skip
    show(Client(url, token).post("/api/v1/tables", given(body)), table_view, as_json=as_json)


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
    show(listed(items, limit), tables_view, as_json=as_json)


def listed(items: list[Document], limit: int) -> Document:
    return {"items": items[:limit], "next": "more" if len(items) > limit else None}


@app.command("show", epilog="lakehand tables show sales.orders")
def show_table(table: TableName, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Show one table: where it is, whose it is, what is wanted for it."""
    show(Client(url, token).table(table), table_view, as_json=as_json)


@app.command(
    epilog="lakehand tables change trips --actions +clustering  ·  lakehand tables change trips --actions -clean  ·  "
    "lakehand tables change trips --actions compaction,clean --priority 5"
)
def change(
    table: TableName,
    *,
    actions: Annotated[str | None, typer.Option(help="+a or -b changes the list, a,b replaces it.")] = None,
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
    """Change what is wanted for a table."""
    client = Client(url, token)
    known = client.table(table)
    body = given({"owner": owner, "queue": queue, "priority": priority, "scheduling": scheduling})
    body |= given({"heartbeat_timeout": heartbeat_timeout})
    if actions is not None:
        body["action_types"] = words(actions)
    if property or drop_property:
        body["properties"] = changed_properties(known["properties"], property or [], drop_property or [])
    if not body:
        raise CommandFailed("nothing to change was given: see lakehand tables change --help")
    show(client.patch(f"/api/v1/tables/{known['id']}", body), table_view, as_json=as_json)


def changed_properties(now: Document, added: list[str], dropped: list[str]) -> Document:
    kept = {key: value for key, value in now.items() if key not in dropped}
    return {**kept, **pairs(added, "--property")}


@app.command()
def pause(table: TableName, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Start nothing more for a table; what runs goes on."""
    show(asked(Client(url, token), table, "pause"), table_view, as_json=as_json)


@app.command()
def resume(table: TableName, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Go on with a paused table."""
    show(asked(Client(url, token), table, "resume"), table_view, as_json=as_json)


def asked(client: Client, text: str, what: str) -> Any:
    return client.post(f"/api/v1/tables/{client.table(text)['id']}/{what}")


@app.command()
def remove(table: TableName, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Forget a table; its data stays as it is, its history too."""
    client = Client(url, token)
    known = client.table(table)
    client.delete(f"/api/v1/tables/{known['id']}")
    if as_json:
        show(known, table_view, as_json=True)
    else:
        say(f"{name_of(known)} is removed from the service; its data is untouched")


@app.command(epilog="lakehand tables look trips --watch")
def look(
    table: TableName, *, watch: Watch = False, url: Url = URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Have a table looked at now, without waiting for its writer or its heartbeat timeout."""
    client = Client(url, token)
    path = f"/api/v1/tables/{client.table(table)['id']}"
    before = looks_of(client.get(f"{path}/explain"))
    client.post(f"{path}/look")
    if watch:
        follow(lambda: watched(client, path, before), explanation_view, as_json=as_json)
    else:
        show(client.get(f"{path}/explain"), explanation_view, as_json=as_json)


def looks_of(explanation: Document) -> dict[str, str | None]:
    return {one["action"]: one["last_look"] for one in explanation["actions"] if one["wanted"]}


def watched(client: Client, path: str, before: dict[str, str | None]) -> tuple[Document, bool]:
    """Finished when every wanted action was looked at anew and nothing is left to run."""
    now = client.get(f"{path}/explain")
    looked = all(when != before.get(action) for action, when in looks_of(now).items())
    return now, looked and not any(one["unfinished"] for one in now["actions"])


app.command(epilog="lakehand tables discover /data  ·  lakehand tables discover s3://lake --register --owner finance")(
    discover.discover
)
