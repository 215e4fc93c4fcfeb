# SPDX-License-Identifier: Apache-2.0
"""lakehand doctor: looks at everything that the service needs, and says how to mend what is wrong."""

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakehand.cli.options import AsJson
from lakehand.cli.screen import console, data, joined
from lakehand.cli.service import Config, Database, Home, Warehouse, settings_of

if TYPE_CHECKING:
    from lakehand.cli.checks import Finding


def line(finding: "Finding") -> Text:
    word = data("ok     ", "green") if finding.is_fine else data("problem", "red")
    fix = joined(Text("\n        fix:", style="bold"), f" {finding.fix}") if finding.fix else ""
    return joined(word, " ", data(finding.part, "bold"), f": {finding.detail}", fix)


def doctor(
    *,
    home: Home = None,
    database: Database = None,
    warehouse: Warehouse = None,
    config: Config = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not start Spark.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look at Python, Java, jars, database, storage and Spark; each line is fine, or says how to mend it."""
    from lakehand.cli.checks import examine

    findings: list[Finding] = []
    screen = console()
    for finding in examine(settings_of(home, database, warehouse, config), quick=quick):
        findings.append(finding)
        if not as_json:
            screen.print(line(finding), soft_wrap=True)
    if as_json:
        print(json.dumps({"items": [finding.document() for finding in findings]}, indent=2))
    if not all(finding.is_fine for finding in findings):
        raise typer.Exit(1)
