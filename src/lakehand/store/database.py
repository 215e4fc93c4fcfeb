# SPDX-License-Identifier: Apache-2.0
"""One database behind a URL: connections with the right settings, and transactions that are retried.

Parameters that a driver does not know are refused. When the files of an open SQLite database were deleted or replaced,
what is stored then would be lost: that is noticed.
"""

import inspect
import logging
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Pool, create_engine, event, make_url, update
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from lakehand.domain.errors import Invalid, Unavailable
from lakehand.store.dialects import is_demoted, is_temporary, is_unavailable
from lakehand.store.schema import instance

log = logging.getLogger(__name__)
T = TypeVar("T")

ATTEMPTS = 10
FIRST_WAIT = 0.004  # seconds
LONGEST_WAIT = 0.5
BUSY_SECONDS = 20
RETRY_FOR = 15.0  # seconds: whoever waits for the answer learns by then that the database does not work
CHECK_SECONDS = 1.0  # that a check waits for SQLite's lock
STEADY = 5.0  # seconds without a failure until writing counts as working again

NEXT_STEPS = {
    "is full": "free some space on its disk; writing resumes by itself",
    "no space": "free some space on its disk; writing resumes by itself",
    "readonly": "its file or folder is not writable: check owner, mode and file system",
    "unable to open": "its folder must exist, and be writable",
    "disk i/o": "its disk fails: see the system's log",
    "is locked": "another program has locked it: end that program",
    "read-only": "it is read-only, as after a failover: its URL must lead to the server that writes",
    "read only": "it is read-only, as after a failover: its URL must lead to the server that writes",
}
CHANGE_NOTHING = update(instance).where(instance.c.instance_id == "").values(beat_time=instance.c.beat_time)
DAMAGED = ("malformed", "not a database", "unsupported file format")

# FULL: a commit is on disk when it returns; NORMAL may lose it in a power failure.
SQLITE_SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA foreign_keys = ON")
# A client that hangs within a transaction must not block the others forever.
POSTGRESQL_SETTINGS = (
    "SET lock_timeout = '10s'",
    "SET statement_timeout = '60s'",
    "SET idle_in_transaction_session_timeout = '60s'",
    # A plan cached while the tables were empty would scan them whole when they are full.
    "SET plan_cache_mode = 'force_custom_plan'",
)
MYSQL_SETTINGS = (
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION innodb_lock_wait_timeout = 10",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'",
)
DRIVERS = {
    "sqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}
FILE_CHECK_PAUSE = 0.2  # seconds between two checks while there is nothing but reading
FileId = tuple[int, int]  # device and inode


class Database:
    """Hands out short transactions. ``work`` may run more than once, so it must do nothing but SQL."""

    def __init__(self, url: str | URL, *, pool: type[Pool] | None = None) -> None:
        self.url = read_url(url)
        self.engine = open_engine(self.url, pool)
        self.dialect = self.engine.dialect.name
        is_sqlite = self.dialect == "sqlite"
        self.name = str(self.url.database) if is_sqlite else f"the {self.dialect} database"
        self.problem = ""  # why a write failed, while that may still be so
        self._failed_at = 0.0
        self._written_at = -STEADY  # on the monotonic clock: when a write last succeeded
        self.files = watched_files(self.engine, str(self.url.database)) if is_sqlite else None
        is_postgresql = self.dialect == "postgresql"
        # SQLite has one writer at a time: this lock is fairer than its busy handler.
        self.write_lock: threading.Lock | nullcontext[None] = threading.Lock() if is_sqlite else nullcontext()
        self.writer = self.engine.execution_options(begin="BEGIN IMMEDIATE") if is_sqlite else self.engine
        # A single SELECT needs no transaction; autocommit saves psycopg a round trip.
        self.reader = self.engine.execution_options(isolation_level="AUTOCOMMIT") if is_postgresql else self.engine

    def read(self, work: Callable[[Connection], T]) -> T:
        return self.retry(lambda: self.read_once(work))

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run the work in one transaction; it is durable when this returns."""
        with self.write_lock:
            try:
                result = self.retry(lambda: self.committed(work))
            except Unavailable as error:
                self.report(str(error))
                raise
        self._written_at = time.monotonic()
        self.report("")
        return result

    def check_writes(self) -> None:
        """Raise Unavailable unless writing works: it did a moment ago, or a change may be made, which is taken back.

        Reading may go on when writing does not: from a standby, or while another program has locked SQLite's file.
        """
        if time.monotonic() - self._written_at < STEADY:
            return
        try:
            if self.dialect == "sqlite":
                with translate_errors(self.name):
                    self.try_lock()
            else:
                self.retry(self.try_change)
        except Unavailable as error:
            self.report(str(error))
            raise

    def try_change(self) -> None:
        """A server that does not write refuses also a change of no row."""
        with self.writer.connect() as connection:
            connection.execute(CHANGE_NOTHING)
            connection.rollback()

    def try_lock(self) -> None:
        """Take the lock that a write needs, with little patience."""
        self.check_files()
        assert not isinstance(self.write_lock, nullcontext)
        if not self.write_lock.acquire(timeout=CHECK_SECONDS):
            raise Unavailable(f"{self.name} has taken no write for some seconds, while one waits")
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(CHECK_SECONDS * 1000)}")
                try:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                    connection.execute(CHANGE_NOTHING)
                    connection.exec_driver_sql("ROLLBACK")
                finally:
                    connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        finally:
            self.write_lock.release()

    def read_once(self, work: Callable[[Connection], T]) -> T:
        self.check_files()
        with self.reader.connect() as connection:
            return work(connection)

    def committed(self, work: Callable[[Connection], T]) -> T:
        self.check_files()
        with self.writer.connect() as connection:
            result = work(connection)
            with in_doubt():
                connection.commit()
            if self.files is not None:
                self.files.settle()
                self.files.check()  # before the caller reports it as stored
            return result

    def check_files(self) -> None:
        if self.files is not None:
            self.files.check_sometimes()

    def retry(self, attempt: Callable[[], T]) -> T:
        began = time.monotonic()
        for number in range(ATTEMPTS - 1):
            try:
                with translate_errors(self.name):
                    return attempt()
            except RolledBack:
                if time.monotonic() - began > RETRY_FOR:
                    raise
                time.sleep(min(FIRST_WAIT * 2**number, LONGEST_WAIT) * (0.5 + random.random()))
        with translate_errors(self.name):
            return attempt()

    def report(self, problem: str) -> None:
        """Log when writing begins to fail and when it works again, not every attempt.

        On a full disk small writes may still succeed, so one success soon after a failure proves nothing.
        """
        if problem:
            self._failed_at = time.monotonic()
        elif self.problem and time.monotonic() - self._failed_at < STEADY:
            return
        if bool(problem) != bool(self.problem):
            if problem:
                log.error("the database does not accept writes", extra={"cause": problem})
            else:
                log.warning("the database accepts writes again")
        self.problem = problem

    def close(self) -> None:
        self.engine.dispose()


class RolledBack(Unavailable):
    """The transaction was rolled back and may be retried."""


@contextmanager
def translate_errors(name: str = "the database") -> Iterator[None]:
    """Raise our errors for the driver's: rolled back, unavailable, value out of range, damaged."""
    try:
        yield
    except DataError as error:
        raise Invalid(f"the database refused a value: {brief(error)}") from error
    except DBAPIError as error:
        found = translate(first_failure(error), name)
        if found is error:
            raise
        raise found from error
    except PoolTimeout as error:
        raise Unavailable("all connections to the database are in use") from error


@contextmanager
def in_doubt() -> Iterator[None]:
    """If a connection breaks during COMMIT, the outcome is unknown: never retry here."""
    try:
        yield
    except DBAPIError as error:
        if error.connection_invalidated:
            raise Unavailable(f"the database went away during a commit: {brief(error)}") from error
        raise


def translate(error: DBAPIError, name: str) -> Exception:
    # A connection that broke before COMMIT has changed nothing.
    if is_temporary(error) or error.connection_invalidated:
        return RolledBack(f"the database is busy or away: {brief(error)}{next_step(error)}")
    if isinstance(error, OperationalError | InterfaceError) or is_unavailable(error.orig):
        return Unavailable(f"the database does not answer as it should: {brief(error)}{next_step(error)}")
    if isinstance(error.orig, sqlite3.DatabaseError) and any(sign in str(error.orig) for sign in DAMAGED):
        return Unavailable(
            f"{name} is damaged, or is not a database ({brief(error)}): stop the service, restore it from a backup, "
            "or move it away to start over and register the tables again"
        )
    return error


def first_failure(error: DBAPIError) -> DBAPIError:
    """SQLite rolls the whole transaction back on a full disk; releasing a savepoint then fails, too."""
    first, earlier = error, error.__context__
    while earlier is not None and "no such savepoint" in str(error.orig):
        first = earlier if isinstance(earlier, DBAPIError) else first
        earlier = earlier.__context__
    return first


def next_step(error: DBAPIError) -> str:
    text = str(error.orig).lower()
    return next((f"; {step}" for sign, step in NEXT_STEPS.items() if sign in text), "")


def watched_files(engine: Engine, path: str) -> "SqliteFiles":
    files = SqliteFiles(path)
    event.listen(engine, "do_connect", lambda *_: files.check())  # else SQLite would create an empty file
    event.listen(engine, "connect", lambda *_: files.connected())
    event.listen(engine, "close", lambda *_: files.disconnected())
    return files


def brief(error: DBAPIError) -> str:
    return str(error.orig).strip().split("\n")[0][:300]


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
        event.listen(engine, "handle_error", leave_demoted)
    return engine


def leave_demoted(context: ExceptionContext) -> None:
    """Connections of a server that was demoted are given up: the next ones may reach its successor."""
    if is_demoted(context.original_exception):
        context.is_disconnect = True


def prepare(settings: tuple[str, ...], *, by_hand: bool = False) -> Callable[[DBAPIConnection, object], None]:
    def apply(connection: Any, _record: object) -> None:
        if by_hand:
            connection.isolation_level = None  # we begin transactions, not the driver
        cursor = connection.cursor()
        for setting in settings:
            cursor.execute(setting)
        cursor.close()
        connection.commit()

    return apply


def begin_on_sqlite(connection: Connection) -> None:
    """Writers take the lock at once: upgrading a read transaction later may fail."""
    begin = connection.get_execution_options().get("begin")
    if begin:
        connection.exec_driver_sql(begin)


def read_url(text: str | URL) -> URL:
    """The URL with our driver for its kind of database."""
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise Invalid("the database URL cannot be read: write sqlite:////path/file.db or postgresql://...") from error
    kind = url.drivername.partition("+")[0]
    if kind not in DRIVERS:
        raise Invalid(f"{kind!r} is not supported as a database: use sqlite, postgresql, mysql or mariadb")
    if kind == "sqlite" and url.database in (None, "", ":memory:"):
        raise Invalid("SQLite needs a file, for instance sqlite:////var/lib/lakehand/lakehand.db")
    url = url.set(drivername=DRIVERS[kind])
    refuse_unknown_parameters(url)
    return url.update_query_dict({"charset": "utf8mb4"}) if url.get_backend_name() == "mysql" else url


def refuse_unknown_parameters(url: URL) -> None:
    known = known_parameters(url.get_backend_name())
    if unknown := sorted(set(url.query) - known):
        names = ", ".join(sorted(known)) or "none"
        raise Invalid(f"the database URL has an unknown parameter {unknown[0]!r}: known are {names}")


def known_parameters(kind: str) -> set[str]:
    """Those of the driver."""
    if kind == "postgresql":
        from psycopg.pq import Conninfo

        return {option.keyword.decode() for option in Conninfo.get_defaults()}
    if kind == "mysql":
        from pymysql.connections import Connection as MySqlConnection

        return set(inspect.signature(MySqlConnection.__init__).parameters) - {"self"}
    return set()


class DatabaseLost(Unavailable):
    """The database's file is not the one that is open."""


class SqliteFiles:
    """Compares the files at the database's path with those that this process has open: a few microseconds."""

    def __init__(self, path: str) -> None:
        self._main = path
        self._beside = (f"{path}-wal", f"{path}-shm")
        self._open: dict[str, FileId] = {}  # the files that the connections have open, as far as they are known
        self._connections = 0
        self._is_lost = False
        self._next_check = 0.0
        self._lock = Lock()

    def connected(self) -> None:
        """A connection was opened: all of them must have opened the same file."""
        found = file_id(self._main)
        with self._lock:
            self._connections += 1
            if found is not None:
                self._open.setdefault(self._main, found)

    def disconnected(self) -> None:
        """SQLite removes the files beside the database with its last connection, and the next one makes new ones."""
        with self._lock:
            self._connections -= 1
            if self._connections <= 0:
                self._connections = 0
                for name in self._beside:
                    self._open.pop(name, None)

    def settle(self) -> None:
        """After a transaction, while its connection is open: the files beside the database are there now."""
        if len(self._open) <= len(self._beside):
            with self._lock:
                for name in self._beside:
                    if name not in self._open and (found := file_id(name)) is not None:
                        self._open[name] = found

    def check_sometimes(self) -> None:
        """For reading: now and then, and always while something is wrong."""
        if self._is_lost or time.monotonic() >= self._next_check:
            self.check()

    def check(self) -> None:
        """Raise DatabaseLost unless all files are where they were when they were opened."""
        self._next_check = time.monotonic() + FILE_CHECK_PAUSE
        missing = next((name for name, opened in list(self._open.items()) if file_id(name) != opened), None)
        if missing is None:
            if self._is_lost:
                self._is_lost = False
                log.warning("the database's file is back", extra={"file": self._main})
            return
        message = (
            f"{missing} was deleted or replaced while it was open, so nothing can be stored for good: stop the "
            f"service, put {self._main} back from a backup or remove it to begin anew, and start the service again"
        )
        if not self._is_lost:
            self._is_lost = True
            log.error(message, extra={"file": missing})
        raise DatabaseLost(message)


def file_id(name: str) -> FileId | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - asked for every transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino
