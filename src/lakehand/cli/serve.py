# SPDX-License-Identifier: Apache-2.0
"""lakehand serve: runs the service."""

from typing import Annotated

import typer

from lakehand.cli.options import Config, Database, Home, Warehouse, load_settings


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
    from lakehand.local.service_discovery import ServiceDiscovery

    flags = {"host": host, "port": port, "insecure": insecure, "log_level": log_level, "log_format": log_format}
    server.serve(load_settings(home, database, warehouse, config, **flags), discovery=ServiceDiscovery)
