# SPDX-License-Identifier: Apache-2.0
"""Counts the tables in each state, records the totals of the fleet every five minutes, and thins out what is old."""

from dataclasses import dataclass
from datetime import timedelta

from lakehand.core.ports import Metrics, Store, TableFilter
from lakehand.domain.fleet import POINT_EVERY, floor_time, superfluous_points

MOST_OWNERS = 20  # with points of their own


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
