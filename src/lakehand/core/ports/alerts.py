# SPDX-License-Identifier: Apache-2.0
"""Alerts and their messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from lakehand.core.pages import Page
from lakehand.core.ports.fleet import Troubles
from lakehand.domain.alerts import Alert, AlertChanges, AlertId, AlertMessage, AlertRules, Severity
from lakehand.domain.events import Event
from lakehand.domain.operations import (
    InstanceId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsChanged:
    """How many alerts this transaction changed; those that a rival changed first do not count."""

    opened: int = 0
    resolved: int = 0


class Alerts(Protocol):
    """Alerts, and the outbox of their messages: both are written in one transaction."""

    def troubles(
        self, *, unreadable_since: datetime, unknown_since: datetime, lost_since: datetime, limit: int
    ) -> Troubles:
        """Failed and unreadable tables that are served, operations that are UNKNOWN, leases that were lost."""

    def open_alerts(self) -> Sequence[Alert]: ...

    def get(self, id: AlertId) -> Alert: ...

    def list(self, *, only_open: bool, limit: int, cursor: str | None) -> Page[Alert]:
        """Newest first."""

    def counts(self) -> Mapping[Severity, int]:
        """Open alerts, also of severities that have none."""

    def change(self, changes: AlertChanges, rules: AlertRules, *, read_at: datetime, now: datetime) -> AlertsChanged:
        """Open, refresh, resolve and remind, with messages and events. Of several instances one wins each change.

        A cause is not opened if it was resolved since ``read_at``, when the open alerts were read. A receiver that
        was told of an alert is told when it is over; beyond the bound of the rules, causes are one summary.
        """

    def silence(self, id: AlertId, *, until: datetime, now: datetime, event: Event) -> Alert:
        """No reminder until then, and messages that were not sent yet wait."""

    def due_receivers(self, *, now: datetime) -> Sequence[str]:
        """Receivers that have messages to claim."""

    def claim(
        self, receiver: str, *, holder: InstanceId, now: datetime, time_to_live: timedelta, limit: int
    ) -> Sequence[AlertMessage]:
        """Lease messages that are due, oldest first; of one alert none before the earlier ones have ended."""

    def finish(self, message: AlertMessage, *, now: datetime) -> bool:
        """It was sent. False if the lease was lost."""

    def postpone(self, message: AlertMessage, *, error: str, due: datetime | None, now: datetime) -> bool:
        """It was not sent, and is due again later; without a time it is given up. False if the lease was lost."""

    def release(self, holder: InstanceId) -> int:
        """End the leases that a former process of this instance left. Returns how many."""

    def remove_before(self, before: datetime, *, limit: int) -> int:
        """Delete alerts that were resolved before, with their messages; not while these are still to be sent."""
