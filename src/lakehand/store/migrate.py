# SPDX-License-Identifier: Apache-2.0
"""Brings a database's schema up to date. Several instances may start at once: one works, the others wait for it.

The name of a revision may say which code goes on working with it: ``0012_0010`` is fine for code that knows 0010.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool

from lakehand.domain.errors import Conflict
from lakehand.store.database import Database

log = logging.getLogger(__name__)
SCRIPTS = Path(__file__).parent / "migrations"
LOCK_NUMBER = 5_417_346_021  # ours alone, among the advisory locks of a PostgreSQL database
LOCK_NAME = "CONCAT('lakehand.migrate.', MD5(DATABASE()))"
LOCK_SECONDS = 600


COMPATIBLE = "_"  # in the name of a revision, before the oldest one whose code works with it


class SchemaTooNew(Conflict):
    """The database was made by a newer version of Lakehand, and this one does not work with it."""

    code = "schema-too-new"


def head() -> str:
    """The revision that this version of Lakehand needs."""
    revision = scripts().get_current_head()
    assert revision is not None
    return revision


def current(url: str) -> str | None:
    """The revision that the database has; None when it is empty."""
    with opened(url) as database:
        return database.read(revision_of)


def upgrade(url: str) -> str:
    """Bring the schema to ``head``, whatever it is now; refuse one that is newer than this version knows."""
    with opened(url) as database:
        if database.read(revision_of) != head():
            database.write(migrate)
    return head()


def migrate(tx: Connection) -> None:
    with migration_lock(tx):
        found, known = revision_of(tx), {script.revision for script in scripts().walk_revisions()}
        if found is not None and found not in known:
            refuse_unless_compatible(found, known)
            return
        config = Config()
        config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
        config.attributes["connection"] = tx
        command.upgrade(config, "head")


def refuse_unless_compatible(found: str, known: Collection[str]) -> None:
    """Instances of the version before may start again while others are upgraded already."""
    if found.partition(COMPATIBLE)[2] in {one.partition(COMPATIBLE)[0] for one in known}:
        log.warning("the database is newer than this version, which works with it", extra={"schema": found})
        return
    raise SchemaTooNew(
        f"the database has schema {found}, this version of Lakehand knows up to {head()}: run a newer "
        "Lakehand, or restore the backup that was made before the upgrade"
    )


def scripts() -> ScriptDirectory:
    return ScriptDirectory(str(SCRIPTS))


def revision_of(tx: Connection) -> str | None:
    return MigrationContext.configure(tx).get_current_revision()


@contextmanager
def opened(url: str) -> Iterator[Database]:
    database = Database(url, pool=NullPool)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def migration_lock(tx: Connection) -> Iterator[None]:
    """One instance at a time. On SQLite the transaction holds the only write lock there is."""
    if tx.dialect.name == "postgresql":  # the lock goes with the transaction
        tx.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        tx.exec_driver_sql("SET LOCAL statement_timeout = 0")
        tx.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_NUMBER})")
    is_mysql = tx.dialect.name == "mysql"  # the lock goes with the connection: each change of the schema commits
    if is_mysql and tx.exec_driver_sql(f"SELECT GET_LOCK({LOCK_NAME}, {LOCK_SECONDS})").scalar_one() != 1:
        raise Conflict("another instance has been migrating the database for too long: see its log")
    try:
        yield
    finally:
        if is_mysql:
            tx.exec_driver_sql(f"SELECT RELEASE_LOCK({LOCK_NAME})")
