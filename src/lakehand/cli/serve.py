# SPDX-License-Identifier: Apache-2.0
"""lakehand serve, and what may come before it: migrate, doctor and demo. All run on this machine."""

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakehand.cli.options import AsJson, Config, Database, Home, Warehouse, load_settings, words
from lakehand.output import data, join, print_line, stdout_console

if TYPE_CHECKING:
    from lakehand.cli.checks import CheckResult


def serve(
    *,
    home: Home = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (LAKEHAND_HOST; 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (LAKEHAND_PORT; 9091).")] = None,
    database: Database = None,
    warehouse: Warehouse = None,
    config: Config = None,
    insecure: Annotated[
        bool | None, typer.Option("--insecure", help="Listen on any address without a token (LAKEHAND_INSECURE).")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error (LAKEHAND_LOG_LEVEL).")] = None,
    log_format: Annotated[str | None, typer.Option(help="auto, text or json (LAKEHAND_LOG_FORMAT).")] = None,
) -> None:
    """Run the service. Options override LAKEHAND_... variables, which override lakehand.toml."""
    from lakehand.app import server
    from lakehand.local.check import ServiceDiscovery

    flags = {"host": host, "port": port, "insecure": insecure, "log_level": log_level, "log_format": log_format}
    server.serve(load_settings(home, database, warehouse, config, **flags), discovery=ServiceDiscovery)


def migrate(*, home: Home = None, database: Database = None, config: Config = None) -> None:
    """Upgrade the schema of the database. serve does it too; run it yourself before you upgrade several instances."""
    from lakehand.app.wiring import migrated
    from lakehand.store.migrate import head

    migrated(load_settings(home, database, None, config)).release()
    print_line(f"the database is at schema {head()}")


def result_line(result: "CheckResult") -> Text:
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
            console.print(result_line(result), soft_wrap=True)
    if as_json:
        print(json.dumps({"items": [result._asdict() for result in results]}, indent=2))
    if not all(result.is_fine for result in results):
        raise typer.Exit(1)


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Keep everything running afterwards, until Ctrl-C.")] = False,
    formats: Annotated[
        str, typer.Option("--formats", help="Only these formats, for example hudi,delta.", show_default="all five")
    ] = "",
    storage: Annotated[
        str, typer.Option("--storage", help="Where the tables are: disk, or s3 (a bucket of moto, which it starts).")
    ] = "disk",
) -> None:
    """Watch Lakehand repair tables of five formats: real writers, a real service and real Spark, on this machine."""
    from lakehand.demo.run import run_demo

    raise typer.Exit(run_demo(keep=keep, wanted=words(formats), storage=storage))
