# SPDX-License-Identifier: Apache-2.0
"""The database's clock, as epoch milliseconds, and the way between those and Python's times."""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, overload

from sqlalchemy import BigInteger, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from lakehand.store.database import Database

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)


class EpochMillis(GenericFunction[int]):
    """The time of the statement, by the database."""

    type = BigInteger()
    inherit_cache = True
    name = "lakehand_epoch_millis"


@compiles(EpochMillis, "sqlite")
def _on_sqlite(element: EpochMillis, compiler: SQLCompiler, **kw: Any) -> str:
    return "(CAST(strftime('%s', 'now') AS INTEGER) * 1000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER))"


@compiles(EpochMillis, "postgresql")
def _on_postgresql(element: EpochMillis, compiler: SQLCompiler, **kw: Any) -> str:
    return "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)"


@compiles(EpochMillis, "mysql")
def _on_mysql(element: EpochMillis, compiler: SQLCompiler, **kw: Any) -> str:
    return "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"


NOW = select(EpochMillis())


@dataclass(frozen=True, slots=True)
class DatabaseClock:
    database: Database

    def now(self) -> datetime:
        """The database's time, in UTC: all instances agree on it."""
        return to_time(self.database.read(lambda tx: tx.execute(NOW).scalar_one()))


def to_millis(time: datetime) -> int:
    return (time - EPOCH) // MILLISECOND


def span_to_millis(span: timedelta) -> int:
    return span // MILLISECOND


def millis_or_none(time: datetime | None) -> int | None:
    return None if time is None else to_millis(time)


@overload
def to_time(millis: int) -> datetime: ...
@overload
def to_time(millis: None) -> None: ...
def to_time(millis: int | None) -> datetime | None:
    return None if millis is None else EPOCH + timedelta(milliseconds=millis)
