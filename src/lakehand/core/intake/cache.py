# SPDX-License-Identifier: Apache-2.0
"""Caches the database's time and the known tables for the intake, so that not every batch reads them."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakehand.core.ports import Store
from lakehand.domain.tables import Table

MOST = 20_000


@dataclass(kw_only=True)
class IntakeCache:
    """Shared by threads. ``keep`` is how long entries live; by default nothing is cached."""

    store: Store
    keep: timedelta = timedelta()
    _clock: tuple[datetime, float] | None = None  # the database's time, and our clock when it was read
    _tables: dict[str, Table] = field(default_factory=dict)
    _tables_since: float = 0.0

    def now(self) -> datetime:
        """The database's time, advanced by this machine's clock. It may lag a little, but is never ahead."""
        clock = self._clock
        if clock is None or self.is_old(clock[1]):
            now = self.store.clock.now()
            self._clock = (now, time.monotonic())
            return now
        return clock[0] + timedelta(seconds=time.monotonic() - clock[1])

    def tables(self, locations: Collection[str]) -> Mapping[str, Table]:
        """Registered tables by location, possibly more than asked for. Unknown locations are not cached."""
        if self.is_old(self._tables_since) or len(self._tables) > MOST:
            self.forget()
        tables = self._tables
        unknown = [location for location in locations if location not in tables]
        if unknown:
            tables.update(self.store.tables.by_locations(unknown))
        return tables

    def forget(self) -> None:
        self._tables, self._tables_since = {}, time.monotonic()

    def is_old(self, since: float) -> bool:
        return time.monotonic() - since >= self.keep.total_seconds()
