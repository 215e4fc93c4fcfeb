# SPDX-License-Identifier: Apache-2.0
"""lakehand settings: the settings of the formats that are installed here, from their setting rows."""

from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lakehand.cli.options import AsJson, CommandFailed
from lakehand.output import data, print_document
from lakehand.spi.kit import FormatFactory, describe

FormatName = Annotated[str | None, typer.Argument(metavar="FORMAT", help="Only this format.", show_default=False)]


def settings(format: FormatName = None, as_json: AsJson = False) -> None:
    """List the settings of each format: type, default, floor, who may set it, and what it means."""
    known = {factory.name: [describe(row) for row in factory.settings.rows] for factory in factories()}
    if format is not None and format not in known:
        raise CommandFailed(f"no plugin called {format!r} has settings; there are: {', '.join(sorted(known))}")
    chosen = {name: rows for name, rows in sorted(known.items()) if format in (None, name)}
    print_document(chosen, settings_view, as_json=as_json)


def factories() -> list[FormatFactory[Any]]:
    """Those that are built with the kit; a plugin of another kind documents its settings itself."""
    found = (entry.load() for entry in entry_points(group="lakehand.process_factories"))
    return [kind() for kind in found if isinstance(kind, type) and issubclass(kind, FormatFactory)]


def settings_view(document: dict[str, list[dict[str, str]]]) -> RenderableType:
    return Group(*(format_view(name, rows) for name, rows in document.items()))


def format_view(name: str, rows: list[dict[str, str]]) -> RenderableType:
    table = Table(
        "setting", "type", "default", "floor", "set by", "meaning", box=None, title=name, title_justify="left"
    )
    for row in rows:
        table.add_row(*(data(text) if text else Text() for text in row.values()))
    return table
