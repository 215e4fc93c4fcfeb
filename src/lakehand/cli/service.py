# SPDX-License-Identifier: Apache-2.0
"""lakehand serve and migrate: the commands that run on the service's own machine, with its settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from lakehand.cli.screen import say

if TYPE_CHECKING:
    from lakehand.app.settings import Settings

Config: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="The lakehand.toml to use; else LAKEHAND_CONFIG, the one in home, or the one here."),
]
Home: TypeAlias = Annotated[
    Path | None, typer.Option("--home", help="Folder for database, spool and logs (LAKEHAND_HOME; ~/.lakehand).")
]
Database: TypeAlias = Annotated[
    str | None, typer.Option("--database", help="URL of the database (LAKEHAND_DATABASE; SQLite in home).")
]
Warehouse: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--warehouse", help="Serve tables under this folder or URI; may be given again (LAKEHAND_WAREHOUSES)."
    ),
]


def serve(
    *,
    home: Home = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (LAKEHAND_HOST; 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (LAKEHAND_PORT; 9091).")] = None,
    database: Database = None,
    warehouse: Warehouse = None,
    config: Config = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error (LAKEHAND_LOG_LEVEL).")] = None,
    log_format: Annotated[str | None, typer.Option(help="auto, text or json (LAKEHAND_LOG_FORMAT).")] = None,
) -> None:
    """Run the service. Flags win over LAKEHAND_... variables, those over lakehand.toml."""
    from lakehand.app import server

    flags = {"host": host, "port": port, "log_level": log_level, "log_format": log_format}
    server.serve(settings_of(home, database, warehouse, config, **flags))


def migrate(*, home: Home = None, database: Database = None, config: Config = None) -> None:
    """Bring the database's schema up to date. serve does it too; do it by hand before an upgrade of many instances."""
    from lakehand.app.wiring import migrated
    from lakehand.store.migrate import head

    migrated(settings_of(home, database, None, config)).release()
    say(f"the database is at schema {head()}")


def settings_of(
    home: Path | None, database: str | None, warehouses: list[str] | None, config: Path | None, **more: object
) -> "Settings":
    from lakehand.app.settings import load

    return load({"home": home, "database": database, "warehouses": whole(warehouses or []) or None, **more}, config)


def whole(warehouses: list[str]) -> list[str]:
    """Folders as one types them in a shell, made absolute."""
    return [place if "://" in place else str(Path(place).expanduser().absolute()) for place in warehouses]
