# SPDX-License-Identifier: Apache-2.0
"""Removes old history, and records how the fleet is doing."""

from dataclasses import dataclass
from datetime import timedelta

from lakehand.core.ports import Metrics, Store, TableFilter
from lakehand.domain.fleet import POINT_EVERY, floor_time, superfluous_points

BATCH = 500
MOST_OWNERS = 20  # with points of their own


@dataclass(frozen=True, kw_only=True)
class HistoryCleaner:
    store: Store
    keep_history: timedelta
    keep_audit: timedelta = timedelta(days=365)

    def run_once(self) -> bool:
        """Remove one batch of what ended long ago; never anything unfinished. True when there may be more."""
        now = self.store.clock.now()
        before = now - self.keep_history
        removed = self.store.operations.remove_finished(before=before, limit=BATCH)
        forgotten = self.store.events.remove_before(before, limit=BATCH)
        points = self.store.health.remove_before(before, limit=BATCH)
        alerts = self.store.alerts.remove_before(before, limit=BATCH)
        audit = self.store.audit.remove_before(now - self.keep_audit, limit=BATCH)
        self.store.sessions.remove_before(now)
        self.store.instances.remove_before(before)
        return BATCH in (removed, forgotten, points, alerts, audit)


@dataclass(frozen=True, kw_only=True)
class FleetRecorder:
    store: Store
    metrics: Metrics
    keep_history: timedelta

    def run_once(self) -> bool:
        """Record one point, unless an instance has recorded it already. There is never more to do at once."""
        now, fleet = self.store.clock.now(), self.store.fleet
        self.metrics.tables({str(state): count for state, count in fleet.summary(TableFilter()).states.items()})
        if fleet.record(at=floor_time(now, POINT_EVERY), owners=MOST_OWNERS):
            fleet.remove_points(superfluous_points(fleet.point_times(), now=now, keep=self.keep_history))
            fleet.remove_counts(before=now - self.keep_history)
        return False
