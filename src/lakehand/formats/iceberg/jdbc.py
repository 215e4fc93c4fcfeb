# SPDX-License-Identifier: Apache-2.0
"""A JDBC catalog: one SQL table that names the metadata of each table. One address serves Spark and us."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lakehand.spi import Invalid

PREFIX = "jdbc:"
DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
CREDENTIALS = ("user", "password")

_ONE = (
    "SELECT metadata_location FROM iceberg_tables "
    "WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
)
_ALL = "SELECT * FROM iceberg_tables WHERE catalog_name = :catalog ORDER BY table_namespace, table_name"


def address(properties: Mapping[str, str]) -> Any:
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


def connect(properties: Mapping[str, str]) -> Any:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import ArgumentError
    from sqlalchemy.pool import NullPool

    try:
        url = address(properties)
        if url.get_backend_name() == "sqlite":
            return create_engine(url, poolclass=NullPool)
        return create_engine(url, pool_pre_ping=True, pool_size=2)
    except ArgumentError:
        raise Invalid("the uri of the JDBC catalog cannot be read: jdbc:postgresql://host/db, for instance") from None


def metadata_location(database: Any, catalog: str, namespace: str, name: str) -> str:
    with rows(database, _ONE, catalog=catalog, namespace=namespace, name=name) as found:
        row = next(iter(found), None)
    if row is None or not row["metadata_location"]:
        raise Invalid(f"{namespace}.{name} is not in the catalog {catalog}")
    return str(row["metadata_location"])


def tables(database: Any, catalog: str) -> Iterator[tuple[str, str, str]]:
    """Namespace, name and metadata of each table; newer catalogs keep views in the same SQL table."""
    with rows(database, _ALL, catalog=catalog) as found:
        listed = [dict(row) for row in found]
    for row in listed:
        if row.get("iceberg_type") in (None, "TABLE") and row["metadata_location"]:
            yield row["table_namespace"], row["table_name"], row["metadata_location"]


@contextmanager
def rows(database: Any, statement: str, **values: str) -> Iterator[Any]:
    from sqlalchemy import text
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with database.connect() as connection:
            yield connection.execute(text(statement), values).mappings()
    except SQLAlchemyError as error:
        raise OSError(f"the JDBC catalog cannot be asked: {type(error).__name__}") from error
