# SPDX-License-Identifier: Apache-2.0
"""Migrations: from nothing to the schema that the code uses, and never backwards."""

from collections.abc import Iterator
from functools import partial

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, NullPool, inspect, text

from lakehand.domain.locations import path_key
from lakehand.domain.operations import InstanceId
from lakehand.store import open_store
from lakehand.store.database import Database
from lakehand.store.migrate import SCRIPTS, SchemaTooNew, current, head, scripts, upgrade
from lakehand.store.schema import metadata
from tests.store.given import NOON, a_table

ROLLING_SINCE = "0007"  # the schema of the first version from which instances can be replaced one by one


@pytest.fixture
def database(empty_url: str) -> Iterator[Database]:
    database = Database(empty_url, pool=NullPool)
    yield database
    database.close()


def test_an_empty_database_gets_the_schema(empty_url: str, database: Database) -> None:
    assert current(empty_url) is None

    assert upgrade(empty_url) == head()

    assert current(empty_url) == head()
    tables = set(inspect(database.engine).get_table_names())
    assert tables == {*metadata.tables, "alembic_version"}


def test_the_migrations_make_what_the_code_uses(empty_url: str, database: Database) -> None:
    upgrade(empty_url)

    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_an_upgrade_of_what_is_up_to_date_changes_nothing(empty_url: str) -> None:
    upgrade(empty_url)
    store = open_store(empty_url)
    store.instances.heartbeat(InstanceId("one"), host="h", version="1", detail={}, now=NOON)

    upgrade(empty_url)

    assert len(store.instances.list()) == 1
    store.close()


def test_a_newer_schema_is_refused_and_left_alone(empty_url: str, database: Database) -> None:
    upgrade(empty_url)
    database.write(lambda tx: tx.execute(text("UPDATE alembic_version SET version_num = '9999'")))

    with pytest.raises(SchemaTooNew, match="schema 9999, this version of Lakehand knows up to"):
        upgrade(empty_url)

    assert current(empty_url) == "9999"


def test_a_newer_schema_that_says_that_this_code_works_with_it_is_left_alone(
    empty_url: str, database: Database
) -> None:
    upgrade(empty_url)
    newer = f"9999_{head().partition('_')[0]}"
    database.write(lambda tx: tx.execute(text(f"UPDATE alembic_version SET version_num = '{newer}'")))

    upgrade(empty_url)

    assert current(empty_url) == newer


def test_a_newer_schema_for_newer_code_than_this_is_refused(empty_url: str, database: Database) -> None:
    upgrade(empty_url)
    database.write(lambda tx: tx.execute(text("UPDATE alembic_version SET version_num = '9999+9998'")))

    with pytest.raises(SchemaTooNew):
        upgrade(empty_url)


def test_migrations_since_the_rolling_version_only_add_what_older_code_need_not_know(sqlite_url: str) -> None:
    """Expand, then contract: code of the version before goes on working while instances are replaced one by one."""
    database = Database(sqlite_url, pool=NullPool)
    names = [script.revision for script in reversed(list(scripts().walk_revisions()))]
    seen: dict[str, dict[str, tuple[str, bool]]] = {}
    for name in names[names.index(ROLLING_SINCE) :]:
        database.write(partial(upgrade_to, revision=name))
        now = inventory(database)
        for table, columns in seen.items():
            assert columns.items() <= now[table].items(), f"{name} changes or removes columns of {table}"
            added = {column: now[table][column] for column in now[table].keys() - columns.keys()}
            assert all(may_be_left_out for _, may_be_left_out in added.values()), f"{name}: old code cannot insert"
        seen = now
    database.close()


def upgrade_to(tx: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = tx
    command.upgrade(config, revision)


def inventory(database: Database) -> dict[str, dict[str, tuple[str, bool]]]:
    """The columns of each table: their types, and whether an insert may leave them out."""
    found = inspect(database.engine)
    return {
        table: {
            one["name"]: (str(one["type"]), one["nullable"] or one["default"] is not None)
            for one in found.get_columns(table)
        }
        for table in found.get_table_names()
    }


def test_a_first_migration_that_was_cut_off_goes_on(empty_url: str, database: Database) -> None:
    upgrade(empty_url)
    database.write(lambda tx: [tx.execute(text(f"DROP TABLE {name}")) for name in ("attempt", "event")])
    database.write(lambda tx: tx.execute(text("DELETE FROM alembic_version")))

    upgrade(empty_url)

    assert {"attempt", "event"} <= set(inspect(database.engine).get_table_names())


def test_a_later_migration_that_was_cut_off_goes_on(empty_url: str, database: Database) -> None:
    upgrade(empty_url)
    database.write(lambda tx: tx.execute(text("UPDATE alembic_version SET version_num = '0001'")))

    assert upgrade(empty_url) == head()


def test_tables_that_are_there_get_the_keys_of_their_paths(empty_url: str, database: Database) -> None:
    locations = ("/w/sales/orders", "s3a://lake/ünï", "hdfs://nn:8020/a:b")
    upgrade(empty_url)
    store = open_store(empty_url)
    known = [a_table(store, location, db_name="").path_key for location in locations]
    database.write(lambda tx: tx.execute(text("UPDATE tbl SET path_key = NULL")))
    database.write(lambda tx: tx.execute(text("UPDATE alembic_version SET version_num = '0009'")))

    upgrade(empty_url)

    found = store.tables.by_locations(locations)
    assert [found[location].path_key for location in locations] == known == [path_key(one) for one in locations]
    store.close()
