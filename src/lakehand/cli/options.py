# SPDX-License-Identifier: Apache-2.0
"""The options that commands share, each written once."""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, TypeAlias

import typer

from lakehand.cli.client import DEFAULT_URL
from lakehand.cli.problems import CommandFailed

Url: TypeAlias = Annotated[str, typer.Option("--url", envvar="LAKEHAND_URL", help="Where the service answers.")]
Token: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="LAKEHAND_TOKEN", help="The API token, if the service wants one.", show_default=False
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Watch: TypeAlias = Annotated[bool, typer.Option("--watch", "-w", help="Stay, and show what changes. Ctrl-C ends it.")]
Limit: TypeAlias = Annotated[int, typer.Option("--limit", min=1, help="At most this many.")]
TableName: TypeAlias = Annotated[
    str, typer.Argument(metavar="TABLE", help="Id, name, db.name, catalog:db.name or location of a table.")
]
Id: TypeAlias = Annotated[int, typer.Argument(metavar="ID", help="The number of an operation.")]
Ids: TypeAlias = Annotated[list[int], typer.Argument(metavar="ID...", help="Numbers of operations.")]

URL = DEFAULT_URL


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


def whole_reference(text: str) -> str:
    """A folder as one types it in a shell, made absolute; a URI or CATALOG:db.table stays as it is."""
    if ":" in text:
        return text.rstrip("/")
    return os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111 - also takes '..' away
