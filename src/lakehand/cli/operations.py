# SPDX-License-Identifier: Apache-2.0
"""lakehand operations ...: list, submit, cancel and retry operations, read their logs."""

import json
import time
from typing import Annotated

import typer

from lakehand.cli.errors import CommandFailed
from lakehand.cli.options import URL, AsJson, Id, Ids, Limit, TableName, Token, Url, Watch, pairs
from lakehand.cli.views import limited, name_of, operation_view, operations_view
from lakehand.client import FINAL, Client, Document, given
from lakehand.domain.texts import visible
from lakehand.output import INTERVAL, LAYOUT, follow, print_document, print_line

app = typer.Typer(no_args_is_help=True, help="List, submit, cancel and retry operations, read their logs.")

GOOD = frozenset({"succeeded", "dropped"})


@app.command(
    "list",
    epilog="lakehand operations list --status failed  ·  lakehand operations list --table trips --watch",
)
def list_operations(
    *,
    table: Annotated[str | None, typer.Option(help="Only of this table: id, name, db.name or location.")] = None,
    action: Annotated[str | None, typer.Option(help="Only of this action.")] = None,
    status: Annotated[list[str] | None, typer.Option(help="Only of this status; repeatable.")] = None,
    limit: Limit = 20,
    watch: Watch = False,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List operations, the newest first."""
    client = Client(url, token)
    location = client.table(table)["location"] if table else None
    filters = {"location": location, "action": action, "status": ",".join(status or []) or None}

    def fetch() -> tuple[Document, bool]:
        return limited(list(client.pages("/api/v1/operations", filters, limit=limit + 1)), limit), not watch

    follow(fetch, operations_view, as_json=as_json) if watch else print_document(
        fetch()[0], operations_view, as_json=as_json
    )


@app.command("show", epilog="lakehand operations show 17 --watch")
def show_operation(
    id: Id, *, watch: Watch = False, url: Url = URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Show one operation with its attempts and events."""
    client = Client(url, token)
    if watch:
        watch_operation(client, id, as_json=as_json)
    else:
        print_document(client.get(f"/api/v1/operations/{id}"), operation_view, as_json=as_json)


def watch_operation(client: Client, id: int, *, as_json: bool) -> None:
    """Watch an operation to its end; exits with 1 unless it succeeded or was dropped."""

    def fetch() -> tuple[Document, bool]:
        operation = client.get(f"/api/v1/operations/{id}")
        return operation, operation["status"] in FINAL

    if follow(fetch, operation_view, as_json=as_json)["status"] not in GOOD:
        raise typer.Exit(1)


@app.command(
    epilog="lakehand operations submit trips compaction --watch  ·  "
    "lakehand operations submit orders remove-orphans --dry-run --watch"
)
def submit(
    table: TableName,
    action: Annotated[str, typer.Argument(help="compaction, clustering, clean, ...")],
    *,
    instant: Annotated[str | None, typer.Option(help="Run this plan of the table; default: plan and run.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the format, if it is allowed.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be deleted; operations show has the list.")
    ] = False,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Delete even an implausibly large share of files; recorded with your name."),
    ] = False,
    watch: Watch = False,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Submit an operation now. Submitting the same plan again returns the same operation."""
    client = Client(url, token)
    wanted = {"table": client.table(table)["id"], "action": action, "instant": instant}
    words = {"dry_run": dry_run or None, "confirm": confirm or None}
    body = {**given({**wanted, **words}), "options": pairs(option or [], "--option")}
    operation = client.post("/api/v1/operations", body)
    if watch:
        watch_operation(client, operation["id"], as_json=as_json)
    else:
        print_document(operation, operation_view, as_json=as_json)


@app.command(epilog="lakehand operations cancel 17 18")
def cancel(ids: Ids, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Cancel operations. Their plans stay in the table, and they can be retried."""
    client = Client(url, token)
    items = [client.post(f"/api/v1/operations/{number}/cancel") for number in ids]
    print_document({"items": items, "next": None}, operations_view, as_json=as_json)


@app.command()
def retry(ids: Ids, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Retry failed, canceled or dropped operations, with all their attempts."""
    client = Client(url, token)
    items = [client.post(f"/api/v1/operations/{number}/retry") for number in ids]
    print_document({"items": items, "next": None}, operations_view, as_json=as_json)


@app.command()
def remove(ids: Ids, url: Url = URL, token: Token = None) -> None:
    """Remove operations for good; a running one is canceled first."""
    client = Client(url, token)
    for number in ids:
        client.delete(f"/api/v1/operations/{number}")
        print_line(f"operation {number} is removed")


@app.command(epilog="lakehand operations clear trips --yes")
def clear(
    table: TableName,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Remove every unfinished operation of a table."""
    client = Client(url, token)
    known = client.table(table)
    if not yes and not typer.confirm(f"Remove every unfinished operation of {name_of(known)}?"):
        raise CommandFailed("nothing was removed")
    cleared = client.post(f"/api/v1/tables/{known['id']}/clear")
    if as_json:
        print(json.dumps(cleared, indent=2))
    else:
        print_line(f"{len(cleared['removed'])} operations of {name_of(known)} are removed")


@app.command(epilog="lakehand operations logs 17 --follow")
def logs(
    id: Id,
    *,
    attempt: Annotated[int | None, typer.Option(help="Of this attempt; default: the last one.")] = None,
    keep_on: Annotated[bool, typer.Option("--follow", "-f", help="Follow until the operation ends.")] = False,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Print the log of one attempt of an operation."""
    client = Client(url, token)
    offset = 0
    while True:
        ended = client.get(f"/api/v1/operations/{id}")["status"] in FINAL
        page = client.get(f"/api/v1/operations/{id}/logs", {"attempt": attempt, "offset": offset})
        offset = page["next_offset"]
        if page["text"]:
            print(
                json.dumps(page) if as_json else visible(page["text"], keep=LAYOUT),
                end="\n" if as_json else "",
                flush=True,
            )
        elif ended or not keep_on:
            return
        else:
            time.sleep(INTERVAL)
