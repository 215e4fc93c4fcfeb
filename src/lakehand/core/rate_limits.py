# SPDX-License-Identifier: Apache-2.0
"""Limits on what requests can create and be remembered for, so that nobody can fill database or memory."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakehand.domain.events import Event

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@dataclass(kw_only=True)
class RateLimiter:
    """Allows so many new tables per minute, in this process."""

    per_minute: int
    _since: datetime | None = None
    _count: int = field(default=0)

    def lets_pass(self, now: datetime) -> bool:
        if self._since is None or now - self._since >= MINUTE:
            self._since, self._count = now, 0
        self._count += 1
        return self._count <= self.per_minute


@dataclass(kw_only=True)
class EventThrottle:
    """Passes a bounded number of different events per hour; all others become one counted event."""

    per_hour: int = 200
    _since: datetime | None = None
    _known: set[str] = field(default_factory=set)

    def bounded(self, events: Iterable[Event], now: datetime) -> list[Event]:
        if self._since is None or now - self._since >= HOUR:
            self._since, self._known = now, set()
        return list({event.fingerprint: event for event in map(self._passed, events)}.values())

    def _passed(self, event: Event) -> Event:
        known = event.fingerprint or event.message
        if known not in self._known and len(self._known) >= self.per_hour:
            return OVERFLOW
        self._known.add(known)
        return event


@dataclass(kw_only=True)
class RecentKeys:
    """The newest keys, up to a bound: of two halves, the older one is dropped when the newer one is full."""

    most: int = 100_000
    _newer: set[str] = field(default_factory=set)
    _older: set[str] = field(default_factory=set)

    def __contains__(self, key: str) -> bool:
        return key in self._newer or key in self._older

    def add(self, keys: Iterable[str]) -> None:
        for key in keys:
            if not key:
                continue
            if len(self._newer) >= self.most // 2:
                self._older, self._newer = self._newer, set()
            self._newer.add(key)


OVERFLOW = Event(
    kind="intake.overflow",
    message="more different problems occurred within an hour than are stored: see the logs of the writers",
    fingerprint="intake.overflow",
)
