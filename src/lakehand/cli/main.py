# SPDX-License-Identifier: Apache-2.0
"""The lakehand command: every subcommand by name. Nothing heavy is imported before it is needed."""

import typer

from lakehand.cli import about, advice, catalogs, check, doctor, maintain, operations, service, settings, tables
from lakehand.cli.demo import command as demo
from lakehand.cli.problems import Commands

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Lakehand keeps lakehouse tables healthy while other people's jobs write to them.",
    epilog="Start here: lakehand demo shows all of it; lakehand doctor says what is missing; lakehand serve "
    "--warehouse DIR starts the service; lakehand tables add LOCATION gives it a table.",
)
app.command(
    "check",
    epilog="lakehand check /data/trips  ·  lakehand check /data s3://lake --json  ·  "
    "lakehand check lake:sales.orders  ·  "
    "lakehand check /data/trips --set hudi.compaction.delta-commits=3",
)(check.check)
app.command(
    "maintain",
    epilog="lakehand maintain /data/trips --dry-run  ·  lakehand maintain /data/trips --action compaction --yes",
)(maintain.maintain)
app.command("serve", epilog="lakehand serve --home /var/lib/lakehand --warehouse /data --warehouse s3://lake")(
    service.serve
)
app.command("demo", epilog="lakehand demo --keep stays up, to be played with")(demo.demo)
app.command("migrate", epilog="lakehand migrate --database postgresql://user@host/lakehand")(service.migrate)
app.command("doctor", epilog="lakehand doctor --quick leaves Spark out")(doctor.doctor)
app.add_typer(tables.app, name="tables")
app.add_typer(operations.app, name="operations")
app.add_typer(catalogs.app, name="catalogs")
app.command("explain", epilog="lakehand explain sales.orders")(about.explain)
app.command(
    "hudi-options",
    epilog="lakehand hudi-options --hudi-version 1.2.1 --actions compaction,clustering,clean  ·  "
    "lakehand hudi-options -V 0.15.0 --format python",
)(advice.print_options)
app.command("plugins")(about.plugins)
app.command("settings", epilog="lakehand settings delta  ·  lakehand settings --json")(settings.settings)
app.command("version")(about.version)
