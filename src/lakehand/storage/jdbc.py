# SPDX-License-Identifier: Apache-2.0
"""The database of a JDBC catalog, read at the address that Spark has."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lakehand.domain.errors import Invalid

CONNECT = 5  # seconds to reach the database
PREFIX = "jdbc:"
DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
CREDENTIALS = ("user", "password")
# Of statements: milliseconds, and seconds.
TIME_LIMITS = {"postgresql": {"tcp_user_timeout": 20000}, "mysql": {"read_timeout": 20, "write_timeout": 20}}


def database_address(properties: Mapping[str, str]) -> Any:
    """A JDBC address as SQLAlchemy's; every other address is one of SQLAlchemy's already."""
    from sqlalchemy.engine import make_url

    uri = properties.get("uri", "")
    if not uri.startswith(PREFIX):
        return make_url(uri)
    kind, _, rest = uri.removeprefix(PREFIX).partition(":")
    if kind == "sqlite":
        return make_url(f"sqlite:///{rest.removeprefix('file:')}")
    if kind not in DRIVERS:
        raise Invalid(f"no driver is known for {PREFIX}{kind}; known are sqlite, {', '.join(DRIVERS)}")
    url = make_url(f"{DRIVERS[kind]}:{rest}")
    user, password = (properties.get(f"jdbc.{key}") or str(url.query.get(key, "")) for key in CREDENTIALS)
    url = url.difference_update_query(CREDENTIALS)
    return url.set(username=user or url.username, password=password or url.password)


def open_database(properties: Mapping[str, str]) -> Any:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import ArgumentError
    from sqlalchemy.pool import NullPool

    try:
        url = database_address(properties)
        if url.get_backend_name() == "sqlite":
            return create_engine(url, poolclass=NullPool)
        limits = {"connect_timeout": CONNECT, **TIME_LIMITS.get(url.get_backend_name(), {})}
        return create_engine(url, pool_pre_ping=True, pool_size=2, connect_args=limits)
    except ArgumentError:
        raise Invalid("the uri of the JDBC catalog cannot be read: jdbc:postgresql://host/db, for instance") from None


@contextmanager
def select_rows(database: Any, statement: str, **values: str) -> Iterator[Any]:
    from sqlalchemy import text
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with database.connect() as connection:
            yield connection.execute(text(statement), values).mappings()
    except SQLAlchemyError as error:
        raise OSError(f"the JDBC catalog cannot be asked: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """What the driver said; SQLAlchemy would add the statement."""
    said = str(getattr(error, "orig", None) or type(error).__name__).strip()
    return said.splitlines()[0][:300] if said else type(error).__name__
