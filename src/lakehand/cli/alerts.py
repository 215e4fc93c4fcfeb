# SPDX-License-Identifier: Apache-2.0
"""lakehand alerts ...: list what needs a person, silence an alert, send a test message."""

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from lakehand.cli.options import CommandFailed, Id, Limit, Session, add_command
from lakehand.cli.views import brief, coloured, grid, limited
from lakehand.client import Document
from lakehand.output import join, print_line, when

app = typer.Typer(no_args_is_help=True, help="List what needs a person, silence an alert, send a test message.")


@add_command(app, "list", epilog="lakehand alerts list --all  ·  lakehand alerts list --json")
def list_alerts(
    *,
    every: Annotated[bool, typer.Option("--all", help="Resolved ones, too.")] = False,
    limit: Limit = 100,
    session: Session,
) -> None:
    """List open alerts, the newest first."""
    found = session.client.alerts.list(state="all" if every else "open", limit=limit + 1)
    session.show(limited([one.raw for one in found], limit), alerts_view)


@add_command(app, epilog="lakehand alerts silence 17 8h")
def silence(
    id: Id,
    duration: Annotated[str, typer.Argument(metavar="DURATION", help="For how long: 90m, 8h, 2d.")],
    *,
    session: Session,
) -> None:
    """Send no reminder of an alert for a while."""
    alert = session.client.alerts.silence(id, seconds_of(duration))
    session.show(alert.raw, lambda one: join(f"alert {one['id']} is silenced until {one['silenced_until']}"))


@add_command(app, "test", epilog="lakehand alerts test  ·  lakehand alerts test ops")
def send_test(
    receiver: Annotated[str | None, typer.Argument(metavar="RECEIVER", help="Default: all receivers.")] = None,
    *,
    session: Session,
) -> None:
    """Send a test message to the receivers of the service's settings."""
    tests = session.client.alerts.test(receiver or None)
    session.show({"items": [one.raw for one in tests]}, tests_view)
    if any(not one.sent for one in tests):
        raise typer.Exit(1)
    if not tests and not session.as_json:
        print_line("the service has no receivers: see [alerts.receivers.NAME] in its settings")


def seconds_of(text: str) -> float:
    from lakehand.app.setting_types import read_duration

    try:
        return float(read_duration(text).total_seconds())  # type: ignore[attr-defined]
    except ValueError as error:
        raise CommandFailed(str(error)) from None


def alerts_view(document: Document) -> RenderableType:
    if not document["items"]:
        return Text("no alerts: nothing needs a person")
    rows = grid("ID", "SEVERITY", "SINCE", "TIMES", "ALERT", "WHY")
    for one in document["items"]:
        state = join(" (resolved)") if one["resolved_at"] else join(" (silenced)") if one["silenced_until"] else ""
        rows.add_row(
            str(one["id"]), coloured(one["severity"]), when(one["opened_at"]), str(one["count"]),
            join(one["title"], state), brief(one["message"]),
        )  # fmt: skip
    return rows


def tests_view(document: Document) -> RenderableType:
    return Group(*(join(f"{one['receiver']}: {one['problem'] or 'sent'}") for one in document["items"]))
