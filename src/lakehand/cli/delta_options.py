# SPDX-License-Identifier: Apache-2.0
"""lakehand delta-options: prints what Spark sessions need that commit to Delta tables on S3, Lakehand's among them."""

import json
from typing import Annotated

import typer

from lakehand.cli.errors import CommandFailed
from lakehand.writer import delta_options


def print_options(
    *,
    region: Annotated[str, typer.Option(help="AWS region of the DynamoDB table.")],
    table: Annotated[str, typer.Option(help="DynamoDB table that says which commit was first.")] = "delta_log",
    format: Annotated[str, typer.Option("--format", "-f", help="properties, json or toml.")] = "properties",
) -> None:
    """Print the settings for all who commit to Delta tables on S3: writers, and [spark] of lakehand.toml."""
    print(render(delta_options(region=region, table=table), format))


def render(options: dict[str, str], format: str) -> str:
    if format == "json":
        return json.dumps(options, indent=2)
    if format == "toml":
        return "\n".join(["[spark]", *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in options.items())])
    if format == "properties":
        return "\n".join(f"{key}={value}" for key, value in options.items())
    raise CommandFailed(f"--format {format!r} is not known: use properties, json or toml")
