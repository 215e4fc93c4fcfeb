# SPDX-License-Identifier: Apache-2.0
"""Removes what ended before the history that is kept: operations, events, health points, alerts, sessions, audit."""

from dataclasses import dataclass
from datetime import timedelta

from lakehand.core.ports import Store

BATCH = 500


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
