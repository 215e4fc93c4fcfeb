# SPDX-License-Identifier: Apache-2.0
"""The database's clock, as epoch milliseconds, and the way between those and Python's times."""

import time
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
ESTIMATE_FOR = 60.0  # seconds: clocks drift apart by a few milliseconds in that time


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


@dataclass(slots=True)
class DatabaseClock:
    database: Database
    _last: tuple[datetime, float] | None = None  # the last reading, and when it was taken on the monotonic clock

    def now(self) -> datetime:
        now = to_time(self.database.read(lambda tx: tx.execute(NOW).scalar_one()))
        self._last = (now, time.monotonic())
        return now

    def estimate(self) -> datetime:
        last = self._last
        if last is None or time.monotonic() - last[1] > ESTIMATE_FOR:
            return self.now()
        return last[0] + timedelta(seconds=time.monotonic() - last[1])


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
