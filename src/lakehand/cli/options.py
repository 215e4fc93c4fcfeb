# SPDX-License-Identifier: Apache-2.0
"""The options that several commands share."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from lakehand.cli.errors import CommandFailed
from lakehand.client import DEFAULT_URL

if TYPE_CHECKING:
    from lakehand.app.settings import Settings

URL = DEFAULT_URL
Url: TypeAlias = Annotated[str, typer.Option("--url", envvar="LAKEHAND_URL", help="Address of the service.")]
Token: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="LAKEHAND_TOKEN", help="API token, if the service requires one.", show_default=False
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Watch: TypeAlias = Annotated[bool, typer.Option("--watch", "-w", help="Keep watching and show changes; Ctrl-C ends.")]
Limit: TypeAlias = Annotated[int, typer.Option("--limit", min=1, help="Show at most this many.")]
TableName: TypeAlias = Annotated[
    str, typer.Argument(metavar="TABLE", help="Id, name, db.name, catalog:db.name or location of a table.")
]
Id: TypeAlias = Annotated[int, typer.Argument(metavar="ID", help="Id of an operation.")]
Ids: TypeAlias = Annotated[list[int], typer.Argument(metavar="ID...", help="Ids of operations.")]
Config: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file; default: LAKEHAND_CONFIG, else lakehand.toml in home, then here."),
]
Home: TypeAlias = Annotated[
    Path | None, typer.Option("--home", help="Folder for database, spool and logs (LAKEHAND_HOME; ~/.lakehand).")
]
Database: TypeAlias = Annotated[
    str | None, typer.Option("--database", help="URL of the database (LAKEHAND_DATABASE; default: SQLite in home).")
]
Warehouse: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--warehouse", help="Serve tables under this folder or URI; repeatable (LAKEHAND_WAREHOUSES)."),
]


def load_settings(
    home: Path | None, database: str | None, warehouses: list[str] | None, config: Path | None, **more: object
) -> "Settings":
    from lakehand.app.settings import load

    given = [absolute_path(place) for place in warehouses or []]
    return load({"home": home, "database": database, "warehouses": given or None, **more}, config)


def absolute_path(place: str) -> str:
    return place if "://" in place else str(Path(place).expanduser().absolute())


def pairs(texts: Iterable[str], option: str) -> Mapping[str, str]:
    """The values of a repeated KEY=VALUE option."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CommandFailed(f"{option} {text!r} is no KEY=VALUE")
        found[key.strip()] = value
    return found


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def absolute_reference(text: str) -> str:
    """A relative folder becomes absolute; a URI or CATALOG:db.table stays as it is."""
    if ":" in text:
        return text.rstrip("/")
    return os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111 - also resolves '..'
