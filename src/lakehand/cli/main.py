# SPDX-License-Identifier: Apache-2.0
"""The lakehand command with all its subcommands. Heavy imports happen inside the commands."""

import typer

from lakehand.cli import (
    alerts,
    catalogs,
    check,
    events,
    fleet,
    maintain,
    operations,
    serve,
    service,
    settings,
    tables,
    tokens,
    writer_options,
)
from lakehand.cli.options import Commands, add_command

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Lakehand keeps lakehouse tables healthy while other people's jobs write to them.",
    epilog="Start here: lakehand check DIR shows what your tables need; lakehand demo shows everything; "
    "lakehand doctor finds what is missing; lakehand serve --warehouse DIR starts the service; "
    "lakehand tables add LOCATION registers a table.",
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
    serve.serve
)
app.command("demo", epilog="lakehand demo --keep  ·  lakehand demo --formats hudi,delta")(serve.demo)
app.command("migrate", epilog="lakehand migrate --database postgresql://user@host/lakehand")(serve.migrate)
app.command("doctor", epilog="lakehand doctor --quick does not start Spark")(serve.doctor)
app.add_typer(tables.app, name="tables")
app.add_typer(operations.app, name="operations")
app.add_typer(catalogs.app, name="catalogs")
add_command(app, "fleet", epilog="lakehand fleet --hours 168  ·  lakehand fleet --json")(fleet.fleet)
app.add_typer(alerts.app, name="alerts")
app.add_typer(events.app, name="events")
app.add_typer(tokens.app, name="tokens")
add_command(app, "audit", epilog="lakehand audit --table sales.orders  ·  lakehand audit --action token. --json")(
    events.audit
)
add_command(app, "explain", epilog="lakehand explain sales.orders")(tables.explain)
app.command(
    "hudi-options",
    epilog="lakehand hudi-options --hudi-version 1.2.1 --actions compaction,clustering,clean  ·  "
    "lakehand hudi-options -V 0.15.0 --format python",
)(writer_options.print_hudi_options)
app.command("delta-options", epilog="lakehand delta-options --region eu-central-1 --format toml")(
    writer_options.print_delta_options
)
add_command(
    app, "drain",
    epilog="lakehand drain --home /var/lib/lakehand --wait --timeout 600  ·  "
    "lakehand drain --url http://one:9091 --undo",
)(service.drain)  # fmt: skip
add_command(app, "instances")(service.instances)
add_command(app, "plugins")(service.plugins)
app.command("settings", epilog="lakehand settings delta  ·  lakehand settings --json")(settings.settings)
add_command(app, "version")(service.version)
