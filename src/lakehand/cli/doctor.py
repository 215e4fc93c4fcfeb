# SPDX-License-Identifier: Apache-2.0
"""lakehand doctor: checks everything that the service needs, and says how to fix what is wrong."""

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakehand.cli.options import AsJson, Config, Database, Home, Warehouse, load_settings
from lakehand.output import data, join, stdout_console

if TYPE_CHECKING:
    from lakehand.cli.checks import CheckResult


def line(result: "CheckResult") -> Text:
    word = data("ok     ", "green") if result.is_fine else data("problem", "red")
    fix = join(Text("\n        fix:", style="bold"), f" {result.fix}") if result.fix else ""
    return join(word, " ", data(result.part, "bold"), f": {result.detail}", fix)


def doctor(
    *,
    home: Home = None,
    database: Database = None,
    warehouse: Warehouse = None,
    config: Config = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not start Spark.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check Python, Java, plugins, jars, database, storage and Spark; each check passes, or says how to fix it."""
    from lakehand.cli.checks import run_checks

    results: list[CheckResult] = []
    console = stdout_console()
    for result in run_checks(load_settings(home, database, warehouse, config), quick=quick):
        results.append(result)
        if not as_json:
            console.print(line(result), soft_wrap=True)
    if as_json:
        print(json.dumps({"items": [result._asdict() for result in results]}, indent=2))
    if not all(result.is_fine for result in results):
        raise typer.Exit(1)
