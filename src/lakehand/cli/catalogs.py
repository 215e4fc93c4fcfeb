# SPDX-License-Identifier: Apache-2.0
"""lakehand catalogs ...: list the catalogs that the service synchronises with, and synchronise now."""

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from lakehand.cli.options import Session, add_command
from lakehand.cli.views import brief, grid
from lakehand.client import Document
from lakehand.output import data, print_line, when

app = typer.Typer(
    no_args_is_help=True, help="Synchronise with catalogs: register their new tables, retire dropped ones."
)
CHANGES = {"added": "+", "renamed": "~", "retired": "-", "missing": "?"}


@add_command(app, "list", epilog="lakehand catalogs list --json")
def list_catalogs(session: Session) -> None:
    """List the catalogs of the service's settings, and the result of their last synchronisation."""
    session.show({"items": [one.raw for one in session.client.catalogs.list()]}, catalogs_view)


@add_command(app, epilog="lakehand catalogs sync  ·  lakehand catalogs sync lake --dry-run")
def sync(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The catalog; default: all of them.")] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    accept_empty: Annotated[
        bool, typer.Option("--accept-empty", help="Accept that a catalog lists few tables or none.")
    ] = False,
    session: Session,
) -> None:
    """Synchronise now: register new tables, retire dropped ones."""
    catalogs = session.client.catalogs
    names = [name] if name else [one.name for one in catalogs.list()]
    if not names:
        print_line("the service has no catalogs: see [catalogs.NAME] in its settings")
    reports = [catalogs.sync(one, dry_run=dry_run, accept_empty=accept_empty) for one in names]
    session.show({"items": [report.raw for report in reports]}, reports_view)
    if any(report.refused or report.problem for report in reports):
        raise typer.Exit(1)


def catalogs_view(document: Document) -> RenderableType:
    if not document["items"]:
        return Text("no catalogs: see [catalogs.NAME] in the settings of the service")
    rows = grid("NAME", "FORMAT", "TYPE", "SYNC", "TABLES", "LAST SYNC", "WHY")
    for one in document["items"]:
        last = one["last_sync"] or {}
        rows.add_row(
            one["name"], one["format"], one["type"], "yes" if one["sync"] else "no",
            str(last.get("tables", "–")), when(last.get("at")), brief(last.get("problem") or ""),
        )  # fmt: skip
    return rows


def reports_view(document: Document) -> RenderableType:
    return Group(*(data(line) for report in document["items"] for line in report_lines(report)))


def report_lines(report: Document) -> list[str]:
    would = "would be " if report["dry_run"] else ""
    counts = ", ".join(f"{len(report[word])} {would}{word}" for word in CHANGES if report[word])
    lines = [f"{report['catalog']}: {report['tables']} tables; {counts or 'nothing changes'}"]
    lines += [f"  {sign} {name}" for word, sign in CHANGES.items() for name in report[word]]
    lines += [f"  ! {name}: {why}" for name, why in sorted(report["refused"].items())]
    return lines + ([f"  ! {report['problem']}"] if report["problem"] else [])
