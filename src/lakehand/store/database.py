# SPDX-License-Identifier: Apache-2.0
"""One database behind a URL: connections with the right settings, and transactions that are tried again."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Pool, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from lakehand.domain.errors import Invalid, Unavailable
from lakehand.store.dialects import is_passing

T = TypeVar("T")

DRIVERS = {
    "sqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}
TRIES = 10
FIRST_WAIT = 0.004  # seconds
LONGEST_WAIT = 0.5
BUSY_SECONDS = 20

# FULL: a commit has reached the disk when it returns; NORMAL may lose it when the power goes.
SQLITE_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)
# A holder that hangs within a transaction must not stop the others for ever.
POSTGRESQL_SETTINGS = (
    "SET lock_timeout = '10s'",
    "SET statement_timeout = '60s'",
    "SET idle_in_transaction_session_timeout = '60s'",
    # A plan made while the tables were empty would read them whole when they are full.
    "SET plan_cache_mode = 'force_custom_plan'",
)
MYSQL_SETTINGS = (
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION innodb_lock_wait_timeout = 10",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'",
)


class Database:
    """Hands out short transactions. ``work`` may run more than once, so it must do nothing but SQL."""

    def __init__(self, url: str | URL, *, pool: type[Pool] | None = None) -> None:
        self.url = read_url(url)
        self.engine = open_engine(self.url, pool)
        self.dialect = self.engine.dialect.name
        is_sqlite = self.dialect == "sqlite"
        is_postgresql = self.dialect == "postgresql"
        # SQLite has one writer at a time: waiting here is fair, waiting in its busy handler is a lottery.
        self.turn: threading.Lock | nullcontext[None] = threading.Lock() if is_sqlite else nullcontext()
        self.writer = self.engine.execution_options(begin="BEGIN IMMEDIATE") if is_sqlite else self.engine
        # A single SELECT needs no transaction, and psycopg needs no round trip to leave it out.
        self.reader = self.engine.execution_options(isolation_level="AUTOCOMMIT") if is_postgresql else self.engine

    def read(self, work: Callable[[Connection], T]) -> T:
        return self.tried(lambda: self.within(self.reader, work))

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run the work in one transaction; it is durable when this returns."""
        with self.turn:
            return self.tried(lambda: self.committed(work))

    def within(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        with engine.connect() as connection:
            return work(connection)

    def committed(self, work: Callable[[Connection], T]) -> T:
        with self.writer.connect() as connection:
            result = work(connection)
            with in_doubt():
                connection.commit()
            return result

    def tried(self, attempt: Callable[[], T]) -> T:
        for wait in waits():
            try:
                with translated():
                    return attempt()
            except Undone:
                time.sleep(wait)
        with translated():
            return attempt()

    def close(self) -> None:
        self.engine.dispose()


class Undone(Unavailable):
    """The transaction was undone and may be tried again."""


def waits() -> Iterator[float]:
    wait = FIRST_WAIT
    for _ in range(TRIES - 1):
        yield wait * (0.5 + random.random())
        wait = min(wait * 2, LONGEST_WAIT)


@contextmanager
def translated() -> Iterator[None]:
    """Speak our errors: what was undone, what is away, what does not fit."""
    try:
        yield
    except DataError as error:
        raise Invalid(f"the database refuses a value: {brief(error)}") from error
    except DBAPIError as error:
        # A connection that broke before COMMIT was sent has changed nothing.
        if is_passing(error) or error.connection_invalidated:
            raise Undone(f"the database is busy or away: {brief(error)}") from error
        if isinstance(error, OperationalError | InterfaceError):
            raise Unavailable(f"the database does not answer as it should: {brief(error)}") from error
        raise
    except PoolTimeout as error:
        raise Unavailable("all connections to the database are in use") from error


@contextmanager
def in_doubt() -> Iterator[None]:
    """A connection that breaks during COMMIT leaves open what happened: never try again by ourselves."""
    try:
        yield
    except DBAPIError as error:
        if error.connection_invalidated:
            raise Unavailable(f"the database went away during a commit: {brief(error)}") from error
        raise


def brief(error: DBAPIError) -> str:
    return str(error.orig).strip().split("\n")[0][:300]


def read_url(text: str | URL) -> URL:
    """The URL with our driver for its kind of database."""
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise Invalid("the database URL cannot be read: write sqlite:////path/file.db, postgresql://... ") from error
    kind = url.drivername.partition("+")[0]
    if kind not in DRIVERS:
        raise Invalid(f"{kind!r} is no database of ours: use sqlite, postgresql, mysql or mariadb")
    if kind == "sqlite" and url.database in (None, "", ":memory:"):
        raise Invalid("SQLite needs a file, for instance sqlite:////var/lib/lakehand/lakehand.db")
    url = url.set(drivername=DRIVERS[kind])
    return url.update_query_dict({"charset": "utf8mb4"}) if url.get_backend_name() == "mysql" else url


def open_engine(url: URL, pool: type[Pool] | None = None) -> Engine:
    kind = url.get_backend_name()
    options: dict[str, Any] = {"poolclass": pool} if pool else {"pool_size": 12, "max_overflow": 20, "pool_timeout": 30}
    if kind == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, **options)
        event.listen(engine, "begin", begin_on_sqlite)
        event.listen(engine, "connect", prepare(SQLITE_SETTINGS, by_hand=True))
    else:
        settings = POSTGRESQL_SETTINGS if kind == "postgresql" else MYSQL_SETTINGS
        engine = create_engine(
            url, isolation_level="READ COMMITTED", connect_args={"connect_timeout": 10}, pool_recycle=1800, **options
        )
        event.listen(engine, "connect", prepare(settings))
    return engine


def prepare(settings: tuple[str, ...], *, by_hand: bool = False) -> Callable[[DBAPIConnection, object], None]:
    def apply(connection: Any, _record: object) -> None:
        if by_hand:
            connection.isolation_level = None  # transactions begin where we say so, not where the driver guesses
        cursor = connection.cursor()
        for setting in settings:
            cursor.execute(setting)
        cursor.close()
        connection.commit()

    return apply


def begin_on_sqlite(connection: Connection) -> None:
    """Writers take the lock at once: one that reads first and writes later may have to give up."""
    begin = connection.get_execution_options().get("begin")
    if begin:
        connection.exec_driver_sql(begin)
