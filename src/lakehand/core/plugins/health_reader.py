# SPDX-License-Identifier: Apache-2.0
"""Reads the numbers of snapshots on pools of their own: that may list a whole table, and no decision waits for it."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from lakehand.core.plugins.pools import CallAbandoned, WaitGroup, WorkerPools
from lakehand.core.plugins.proxies import FormatProxy
from lakehand.core.plugins.registry import Plugins
from lakehand.domain.health import HealthPoint
from lakehand.domain.processes import Json
from lakehand.domain.tables import Table, TableId
from lakehand.spi import health as names
from lakehand.spi.formats import TableFormat, TableSnapshot

log = logging.getLogger(__name__)
COUNTS = frozenset(
    {
        names.FILES, names.BYTES, names.SMALL_FILES, names.SMALL_BYTES, names.DELETE_FILES, names.DELETION_VECTORS,
        names.LOG_FILES, names.SNAPSHOTS, names.PENDING_PLANS, names.ROWS,
    }
)  # fmt: skip
LARGEST = 2**63 - 1  # what every database can hold
MOST_CLASSES, LONGEST_CLASS = 32, 32  # of a histogram: how many, and how long their names
MOST_SNAPSHOTS = 32  # that wait for their numbers to be read, or are being read: they may be large
FULL_WAIT = 0.2  # seconds that a decision's thread waits while so many are in flight
SHARE = 100  # after a reading, none of this table for so many times as long: a hundredth of the time goes into it
FAILED = 1.0  # seconds that a failed reading counts as, at least
SAME_FOR = timedelta(hours=1)  # for this long the same numbers are not stored again
LATE = 5.0  # seconds that a point waits for a transaction to go with
MOST_KNOWN = 20_000  # tables


class Reading(NamedTuple):
    """The last reading of a table."""

    ended: float  # on the monotonic clock
    seconds: float
    stored: HealthPoint | None  # the last point that was stored
    has_failed: bool = False

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self.ended >= SHARE * self.seconds


@dataclass(kw_only=True)
class HealthReader:
    """Turns snapshots into health points, which the loops take and store with what they write anyway. Thread-safe."""

    plugins: Plugins
    pools: WorkerPools
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _room: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST_SNAPSHOTS))
    _in_flight: dict[TableId, WaitGroup] = field(default_factory=dict)
    _group: WaitGroup = field(default_factory=WaitGroup)
    _known: OrderedDict[TableId, Reading] = field(default_factory=OrderedDict)
    _points: dict[TableId, tuple[float, HealthPoint]] = field(default_factory=dict)  # to be taken, and since when

    def start(self, table: Table, snapshot: TableSnapshot, at: datetime, *, always: bool = False) -> WaitGroup:
        """Have the numbers read, unless that was done a moment ago or too many wait. Done when the group is."""
        group, known = WaitGroup(), self._known.get(table.id)
        if not (always or known is None or known.is_due):
            return group
        group.add()
        with self._lock:
            first = self._in_flight.setdefault(table.id, group)
        if first is not group:
            return first
        self._group.add()
        if self._room.acquire(timeout=FULL_WAIT):
            pool = f"counts {table.format}"
            self.pools.submit(pool, partial(self.run, table, snapshot, at), partial(self.abandoned, table))
        else:
            self.end(table.id)
        return group

    def wait(self, seconds: float) -> None:
        self._group.wait(seconds)

    def take(self, table: TableId) -> HealthPoint | None:
        """The point of a table that waits to be stored."""
        with self._lock:
            return self._points.pop(table, (0.0, None))[1]

    def take_all(self, *, only_late: bool = False) -> Mapping[TableId, HealthPoint]:
        """The points that wait to be stored; ``only_late``: nothing, unless one has waited for long."""
        with self._lock:
            since = min((since for since, _ in self._points.values()), default=None)
            if since is None or (only_late and time.monotonic() - since < LATE):
                return {}
            taken, self._points = self._points, {}
        return {table: point for table, (_, point) in taken.items()}

    def confirm(self, points: Mapping[TableId, HealthPoint]) -> None:
        """These were stored; they need not be stored again while nothing changes."""
        with self._lock:
            for table, point in points.items():
                if table in self._known:
                    self._known[table] = self._known[table]._replace(stored=point)

    def run(self, table: Table, snapshot: TableSnapshot, at: datetime) -> None:
        began, point, least = time.monotonic(), None, 0.0
        try:
            numbers = read_numbers(self.plugins.format(table.format), table.location, snapshot)
            point = HealthPoint(at=at, numbers=shared_numbers(numbers))
        except CallAbandoned:
            raise  # ``abandoned`` was called
        except Exception as error:
            known = self._known.get(table.id)
            level = logging.DEBUG if known and known.has_failed else logging.WARNING  # once, however often it is tried
            log.log(level, "its health cannot be read", extra={"table": table.id, "reason": str(error)})
            least = FAILED
        self.keep(table.id, point, max(least, time.monotonic() - began))
        self._room.release()
        self.end(table.id)

    def keep(self, table: TableId, point: HealthPoint | None, seconds: float) -> None:
        now = time.monotonic()
        with self._lock:
            stored = self._known[table].stored if table in self._known else None
            since, waiting = self._points.get(table, (now, None))
            if point is not None and is_news(point, waiting or stored):
                self._points[table] = since, point
            self._known[table] = Reading(now, seconds, stored, has_failed=point is None)
            self._known.move_to_end(table)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)

    def abandoned(self, table: Table, why: str) -> None:
        """The next reading of this table comes after a long pause."""
        log.warning("its health was not read in time", extra={"table": table.id, "reason": why})
        self.keep(table.id, None, self.pools.timeout)
        self._room.release()
        self.end(table.id)

    def end(self, table: TableId) -> None:
        for group in (self._in_flight.pop(table), self._group):
            group.done()


def read_numbers(reader: TableFormat, location: str, snapshot: TableSnapshot) -> Mapping[str, Json]:
    """Through the format's proxy, with its deadline and checks; only tests have formats without one."""
    return reader.read_numbers(location, snapshot) if isinstance(reader, FormatProxy) else snapshot.numbers


def is_news(point: HealthPoint, last: HealthPoint | None) -> bool:
    return bool(point.numbers) and (last is None or last.numbers != point.numbers or point.at - last.at >= SAME_FOR)


def shared_numbers(numbers: Mapping[str, Json]) -> dict[str, Json]:
    """The numbers that all formats name alike, as far as they are sound: one page shows all formats."""
    found: dict[str, Json] = {name: value for name, value in numbers.items() if name in COUNTS and is_count(value)}
    histogram = numbers.get(names.HISTOGRAM)
    if isinstance(histogram, Mapping) and len(histogram) <= MOST_CLASSES and all(map(is_class, histogram.items())):
        found[names.HISTOGRAM] = dict(histogram)
    return found


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def is_class(item: tuple[object, object]) -> bool:
    name, count = item
    return isinstance(name, str) and len(name) <= LONGEST_CLASS and name.isprintable() and is_count(count)
