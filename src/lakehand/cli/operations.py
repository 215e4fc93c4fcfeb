# SPDX-License-Identifier: Apache-2.0
"""lakehand operations ...: see what is done, ask for more, stop it, try it again, read its log."""

import json
import time
from typing import Annotated

import typer

from lakehand.cli.client import Client, Document, given
from lakehand.cli.options import URL, AsJson, Id, Ids, Limit, TableName, Token, Url, Watch, pairs
from lakehand.cli.problems import CommandFailed
from lakehand.cli.screen import INTERVAL, LAYOUT, follow, say, show
from lakehand.cli.tables import listed
from lakehand.cli.views import FINAL, name_of, operation_view, operations_view
from lakehand.domain.texts import visible

app = typer.Typer(no_args_is_help=True, help="See what is done to tables, ask for more, stop it, try it again.")

GOOD_ENDS = frozenset({"succeeded", "dropped"})


@app.command(
    "list",
    epilog="lakehand operations list --status failed  ·  lakehand operations list --table trips --watch",
)
def list_operations(
    *,
    table: Annotated[str | None, typer.Option(help="Only of this table: id, name, db.name or location.")] = None,
    action: Annotated[str | None, typer.Option(help="Only of this action.")] = None,
    status: Annotated[list[str] | None, typer.Option(help="Only of this status; may be given again.")] = None,
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

    def look() -> tuple[Document, bool]:
        return listed(list(client.pages("/api/v1/operations", filters, limit=limit + 1)), limit), not watch

    follow(look, operations_view, as_json=as_json) if watch else show(look()[0], operations_view, as_json=as_json)


@app.command("show", epilog="lakehand operations show 17 --watch")
def show_operation(
    id: Id, *, watch: Watch = False, url: Url = URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Show one operation with its attempts and events."""
    client = Client(url, token)
    if watch:
        followed(client, id, as_json=as_json)
    else:
        show(client.get(f"/api/v1/operations/{id}"), operation_view, as_json=as_json)


def followed(client: Client, id: int, *, as_json: bool) -> None:
    """Watch an operation to its end; the exit code says whether it was a good one."""

    def look() -> tuple[Document, bool]:
        operation = client.get(f"/api/v1/operations/{id}")
        return operation, operation["status"] in FINAL

    if follow(look, operation_view, as_json=as_json)["status"] not in GOOD_ENDS:
        raise typer.Exit(1)


@app.command(
    epilog="lakehand operations submit trips compaction --watch  ·  "
    "lakehand operations submit orders remove-orphans --dry-run --watch"
)
def submit(
    table: TableName,
    action: Annotated[str, typer.Argument(help="compaction, clustering, clean, ...")],
    *,
    instant: Annotated[str | None, typer.Option(help="Run this plan; without it Lakehand plans and runs.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A format option, of those allowed.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be deleted; operations show has the list.")
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Do it even where the job finds it implausible; recorded with your name.")
    ] = False,
    watch: Watch = False,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Ask for an operation now. The same plan a second time is the same operation."""
    client = Client(url, token)
    wanted = {"table": client.table(table)["id"], "action": action, "instant": instant}
    words = {"dry_run": dry_run or None, "confirm": confirm or None}
    body = {**given({**wanted, **words}), "options": pairs(option or [], "--option")}
    operation = client.post("/api/v1/operations", body)
    if watch:
        followed(client, operation["id"], as_json=as_json)
    else:
        show(operation, operation_view, as_json=as_json)


@app.command(epilog="lakehand operations cancel 17 18")
def cancel(ids: Ids, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Stop operations. Their plans stay in the table and may be retried."""
    client = Client(url, token)
    items = [client.post(f"/api/v1/operations/{number}/cancel") for number in ids]
    show({"items": items, "next": None}, operations_view, as_json=as_json)


@app.command()
def retry(ids: Ids, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Try failed, canceled or dropped operations again, with all their tries back."""
    client = Client(url, token)
    items = [client.post(f"/api/v1/operations/{number}/retry") for number in ids]
    show({"items": items, "next": None}, operations_view, as_json=as_json)


@app.command()
def remove(ids: Ids, url: Url = URL, token: Token = None) -> None:
    """Take operations out of the service's care for good; a running one is canceled first."""
    client = Client(url, token)
    for number in ids:
        client.delete(f"/api/v1/operations/{number}")
        say(f"operation {number} is removed")


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
        say(f"{len(cleared['removed'])} operations of {name_of(known)} are removed")


@app.command(epilog="lakehand operations logs 17 --follow")
def logs(
    id: Id,
    *,
    attempt: Annotated[int | None, typer.Option(help="Of this try; without it the last one.")] = None,
    keep_on: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the operation ends.")] = False,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Print what the job wrote, as one try of an operation."""
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
