# SPDX-License-Identifier: Apache-2.0
"""lakehand migrate: upgrades the schema of the database."""

from lakehand.cli.options import Config, Database, Home, load_settings
from lakehand.output import print_line


def migrate(*, home: Home = None, database: Database = None, config: Config = None) -> None:
    """Upgrade the schema of the database. serve does it too; run it yourself before you upgrade several instances."""
    from lakehand.app.wiring import migrated
    from lakehand.store.migrate import head

    migrated(load_settings(home, database, None, config)).release()
    print_line(f"the database is at schema {head()}")
