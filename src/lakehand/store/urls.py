# SPDX-License-Identifier: Apache-2.0
"""Parses the URL of a database: chooses the driver, and refuses parameters that the driver does not know."""

import inspect

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from lakehand.domain.errors import Invalid

DRIVERS = {
    "sqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}


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
