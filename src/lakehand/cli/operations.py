# SPDX-License-Identifier: Apache-2.0
"""lakehand operations ...: list, submit, change, cancel and retry operations, read their logs."""

import json
from collections.abc import Iterable
from typing import Annotated, TypeAlias

import typer

from lakehand.cli.options import (
    CommandFailed,
    Id,
    Ids,
    Limit,
    Session,
    TableName,
    VerifyRows,
    Watch,
    Yes,
    add_command,
    pairs,
)
from lakehand.cli.views import limited, name_of, operation_view, operations_view
from lakehand.client import GOOD, Document
from lakehand.domain.texts import visible
from lakehand.output import LAYOUT, print_line

OwnPriority: TypeAlias = Annotated[int | None, typer.Option(help="Its own priority; default: that of the table.")]
OwnQueue: TypeAlias = Annotated[str | None, typer.Option(help="Its own queue; default: that of the table.")]
OwnOwner: TypeAlias = Annotated[str | None, typer.Option(help="Its own owner; default: that of the table.")]
NewPriority: TypeAlias = Annotated[int | None, typer.Option(help="The higher, the sooner.")]
NewQueue: TypeAlias = Annotated[str | None, typer.Option(help="The queue that it waits in.")]
NewOwner: TypeAlias = Annotated[str | None, typer.Option(help="Whose it is.")]
app = typer.Typer(no_args_is_help=True, help="List, submit, change, cancel and retry operations, read their logs.")


@add_command(
    app, "list", epilog="lakehand operations list --status failed  ·  lakehand operations list --table trips --watch"
)
def list_operations(
    *,
    table: Annotated[
        str | None, typer.Option(help="Only operations of this table: id, name, db.name or location.")
    ] = None,
    action: Annotated[str | None, typer.Option(help="Only this action.")] = None,
    status: Annotated[list[str] | None, typer.Option(help="Only this status; repeatable.")] = None,
    limit: Limit = 20,
    watch: Watch = False,
    session: Session,
) -> None:
    """List operations, the newest first."""
    operations, known = session.client.operations, session.client.tables.get(table) if table else None

    def fetch() -> tuple[Document, bool]:
        found = operations.list(table=known, action=action, status=status, limit=limit + 1)
        return limited([one.raw for one in found], limit), not watch

    session.follow(fetch, operations_view) if watch else session.show(fetch()[0], operations_view)


@add_command(app, "show", epilog="lakehand operations show 17 --watch")
def show_operation(id: Id, *, watch: Watch = False, session: Session) -> None:
    """Show one operation with its attempts and events."""
    if watch:
        watch_operation(id, session)
    else:
        session.show(session.client.operations.get(id).raw, operation_view)


def watch_operation(id: int, session: Session) -> None:
    """Watch an operation to its end; exits with 1 unless it succeeded or was dropped."""

    def fetch() -> tuple[Document, bool]:
        operation = session.client.operations.get(id)
        return operation.raw, operation.is_final

    if session.follow(fetch, operation_view)["status"] not in GOOD:
        raise typer.Exit(1)


@add_command(
    app,
    epilog="lakehand operations submit trips compaction --watch  ·  "
    "lakehand operations submit orders remove-orphans --dry-run --watch",
)
def submit(
    table: TableName,
    action: Annotated[str, typer.Argument(help="compaction, clustering, clean, ...")],
    *,
    instant: Annotated[str | None, typer.Option(help="Run this plan of the table; default: plan and run.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be deleted; operations show has the list.")
    ] = False,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Delete even an implausibly large share of files; recorded with your name."),
    ] = False,
    verify_rows: VerifyRows = None,
    retry: Annotated[
        bool | None, typer.Option("--retry/--no-retry", help="--no-retry: one attempt, none after it failed.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Run it on this engine; default: the service chooses.")] = None,
    resource: Annotated[
        str | None, typer.Option(metavar="DRIVER:EXECUTOR", help="Memory of an application of its own, such as 4g:8g.")
    ] = None,
    parallelism: Annotated[int | None, typer.Option(help="Cores or executors of an application of its own.")] = None,
    priority: OwnPriority = None,
    queue: OwnQueue = None,
    owner: OwnOwner = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the format, if it is allowed.")
    ] = None,
    watch: Watch = False,
    session: Session,
) -> None:
    """Submit an operation now. Submitting the same plan again returns the same operation."""
    options = pairs(option, "--option")
    operation = session.client.operations.submit(
        session.client.tables.get(table), action, instant=instant, options=options, dry_run=dry_run, confirm=confirm,
        verify_rows=verify_rows, retry_on_error=retry, engine=engine, resource=resource, parallelism=parallelism,
        priority=priority, queue=queue, owner=owner,
    )  # fmt: skip
    if watch:
        watch_operation(operation.id, session)
    else:
        session.show(operation.raw, operation_view)


@add_command(app, epilog="lakehand operations change 17 --priority 50 --queue vip")
def change(
    ids: Ids, *, priority: NewPriority = None, queue: NewQueue = None, owner: NewOwner = None, session: Session
) -> None:
    """Change operations that wait. What is changed does not follow the table any more."""
    change_one = session.client.operations.change
    changed = (change_one(number, priority=priority, queue=queue, owner=owner).raw for number in ids)
    show_each(changed, session)


@add_command(app, epilog="lakehand operations cancel 17 18")
def cancel(ids: Ids, session: Session) -> None:
    """Cancel operations. Their plans stay in the table, and they can be retried."""
    show_each((session.client.operations.cancel(number).raw for number in ids), session)


@add_command(app)
def retry(ids: Ids, session: Session) -> None:
    """Retry failed, canceled or dropped operations, with all their attempts."""
    show_each((session.client.operations.retry(number).raw for number in ids), session)


def show_each(operations: Iterable[Document], session: Session) -> None:
    session.show({"items": list(operations), "next": None}, operations_view)


@add_command(app)
def remove(ids: Ids, session: Session) -> None:
    """Remove operations for good; a running one is canceled first."""
    for number in ids:
        removed = session.client.operations.remove(number).raw
        print(json.dumps(removed)) if session.as_json else print_line(f"operation {number} is removed")


@add_command(app, epilog="lakehand operations clear trips --yes")
def clear(table: TableName, *, yes: Yes = False, session: Session) -> None:
    """Remove every unfinished operation of a table."""
    known = session.client.tables.get(table)
    if not yes and not typer.confirm(f"Remove every unfinished operation of {name_of(known.raw)}?"):
        raise CommandFailed("nothing was removed")
    cleared = session.client.operations.clear(known)
    if session.as_json:
        print(json.dumps(cleared.raw, indent=2))
    else:
        print_line(f"{len(cleared.removed)} operations of {name_of(known.raw)} are removed")


@add_command(app, epilog="lakehand operations logs 17 --follow")
def logs(
    id: Id,
    *,
    attempt: Annotated[int | None, typer.Option(help="Log of this attempt; default: the last one.")] = None,
    keep_on: Annotated[bool, typer.Option("--follow", "-f", help="Follow until the operation ends.")] = False,
    session: Session,
) -> None:
    """Print the log of one attempt of an operation."""
    for page in session.client.operations.log(id, attempt=attempt, follow=keep_on):
        if session.as_json:
            print(json.dumps(page.raw), flush=True)
        else:
            print(visible(page.text, keep=LAYOUT), end="", flush=True)
