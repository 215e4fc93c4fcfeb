# SPDX-License-Identifier: Apache-2.0
"""Migrations: from nothing to the schema that the code uses, and never backwards."""

from collections.abc import Iterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import NullPool, inspect, text

from lakehand.domain.operations import InstanceId
from lakehand.store import open_store
from lakehand.store.database import Database
from lakehand.store.migrate import SchemaTooNew, current, head, upgrade
from lakehand.store.schema import metadata
from tests.store.given import NOON


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
