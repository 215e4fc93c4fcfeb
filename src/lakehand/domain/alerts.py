# SPDX-License-Identifier: Apache-2.0
"""Alerts: what is wrong and needs a person, who is told, when, and when it is over."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, timezone, tzinfo
from typing import NewType

from lakehand.domain.operations import InstanceId, LeaseToken, OperationId
from lakehand.domain.tables import TableId
from lakehand.domain.texts import Word

AlertId = NewType("AlertId", int)
MessageId = NewType("MessageId", int)
SEEN_EVERY = timedelta(minutes=10)  # how often an alert that only goes on is written again


class Severity(Word):
    CRITICAL = "critical"  # work stops, or soon will
    WARNING = "warning"  # one table or one part needs a person


class AlertKind(Word):
    OPERATION_FAILED = "operation-failed"  # for good: no attempts left, or a retry cannot help
    ROWS_DIFFER = "rows-differ"  # or nobody could show that they are the same: its table is paused
    TABLE_UNREADABLE = "table-unreadable"
    QUEUE_STUCK = "queue-stuck"  # its oldest due operation waits too long
    OPERATION_UNKNOWN = "operation-unknown"  # neither engine nor table tells the outcome
    ENGINE_DOWN = "engine-down"  # or it keeps dying
    PLUGIN_BROKEN = "plugin-broken"  # broken, failing or stuck
    LEASE_LOST = "lease-lost"  # operations of an instance were taken over by another one
    DISK_FULL = "disk-full"  # or the database does not accept writes


SEVERITIES: Mapping[AlertKind, Severity] = {
    AlertKind.OPERATION_FAILED: Severity.WARNING,
    AlertKind.ROWS_DIFFER: Severity.CRITICAL,
    AlertKind.TABLE_UNREADABLE: Severity.WARNING,
    AlertKind.QUEUE_STUCK: Severity.CRITICAL,
    AlertKind.OPERATION_UNKNOWN: Severity.WARNING,
    AlertKind.ENGINE_DOWN: Severity.CRITICAL,
    AlertKind.PLUGIN_BROKEN: Severity.WARNING,
    AlertKind.LEASE_LOST: Severity.WARNING,
    AlertKind.DISK_FULL: Severity.CRITICAL,
}


class MessageKind(Word):
    OPENED = "opened"
    REMINDER = "reminder"
    RESOLVED = "resolved"
    SUMMARY = "summary"  # of alerts that opened beyond the bound
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Something that is wrong right now. Equal keys are one alert, however often it happens."""

    key: str
    kind: AlertKind
    title: str
    message: str
    occurrence: str = ""  # differs when it happened again, for instance the id of the operation
    table: TableId | None = None
    operation: OperationId | None = None
    owner: str = ""  # owner, queue and format are empty where it is about no table
    queue: str = ""
    format: str = ""
    instance: str = ""  # the only instance that can see it; empty: all can

    @property
    def severity(self) -> Severity:
        return SEVERITIES[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A cause from when it was first seen until it was over."""

    id: AlertId
    cause: Cause
    opened_at: datetime
    last_seen: datetime
    resolved_at: datetime | None = None
    count: int = 1  # how many occurrences were seen
    silenced_until: datetime | None = None
    remind_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.resolved_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """One message to one receiver, as an instance has claimed it."""

    id: MessageId
    receiver: str
    kind: MessageKind
    alert: Alert | None  # None: a summary
    severity: Severity
    more: int = 0  # of a summary: how many alerts it stands for
    created_at: datetime
    attempts: int  # this one included
    token: LeaseToken


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which alerts go to some receivers. An empty list matches every alert."""

    receivers: tuple[str, ...]
    owners: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()
    severities: frozenset[Severity] = frozenset()

    def matches(self, cause: Cause) -> bool:
        wanted = (
            (self.owners, cause.owner), (self.queues, cause.queue), (self.formats, cause.format),
            (self.severities, cause.severity),
        )  # fmt: skip
        return all(not words or word in words for words, word in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """A part of each day, maybe over midnight, in which only critical messages are sent."""

    start: time
    end: time
    zone: tzinfo = timezone.utc

    def end_after(self, now: datetime) -> datetime | None:
        """When the quiet hours that ``now`` lies in end; None outside of them."""
        local = now.astimezone(self.zone)
        clock = local.time()
        is_over_midnight = self.end <= self.start
        is_quiet = self.start <= clock or clock < self.end if is_over_midnight else self.start <= clock < self.end
        if not is_quiet:
            return None
        day = local.date() + timedelta(days=1 if clock >= self.end else 0)
        return datetime.combine(day, self.end, self.zone).astimezone(timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRules:
    """Who is told of an alert, and when."""

    receivers: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()  # none: every alert goes to every receiver
    quiet_hours: QuietHours | None = None
    reminder: timedelta = timedelta(days=1)
    most_per_minute: int = 50  # alerts that open for one receiver with a message of their own

    def receivers_of(self, cause: Cause) -> tuple[str, ...]:
        if not self.routes:
            return self.receivers
        named = {name for route in self.routes if route.matches(cause) for name in route.receivers}
        return tuple(name for name in self.receivers if name in named)

    def due(self, severity: Severity, now: datetime) -> datetime:
        """When a message may be sent: critical ones at once, others not in the quiet hours."""
        end = self.quiet_hours.end_after(now) if self.quiet_hours else None
        return now if end is None or severity is Severity.CRITICAL else end


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChanges:
    """What has to be stored, so that the open alerts are the causes that hold."""

    open: Sequence[Cause] = ()
    refresh: Sequence[tuple[Alert, Cause]] = ()
    resolve: Sequence[Alert] = ()
    remind: Sequence[Alert] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Which causes one instance knows of: all common ones, its own, and those of instances that are gone."""

    instance: InstanceId
    gone: Collection[str] = field(default_factory=frozenset)
    unclear: Collection[AlertKind] = field(default_factory=frozenset)  # kinds of which not all causes were read

    def covers(self, cause: Cause) -> bool:
        is_visible = cause.instance in ("", self.instance) or cause.instance in self.gone
        return is_visible and cause.kind not in self.unclear


def compare(alerts: Sequence[Alert], causes: Sequence[Cause], *, coverage: Coverage, now: datetime) -> AlertChanges:
    """Open alerts, read before the causes, against the causes that hold now."""
    known = {alert.cause.key: alert for alert in alerts}
    holding = {cause.key: cause for cause in causes}
    pairs = [(known[key], cause) for key, cause in holding.items() if key in known]
    return AlertChanges(
        open=[cause for key, cause in holding.items() if key not in known],
        refresh=[(alert, cause) for alert, cause in pairs if is_news(alert, cause, now)],
        resolve=[alert for key, alert in known.items() if key not in holding and coverage.covers(alert.cause)],
        remind=[alert for alert, _ in pairs if needs_reminder(alert, now)],
    )


def is_news(alert: Alert, cause: Cause, now: datetime) -> bool:
    return cause.occurrence != alert.cause.occurrence or now - alert.last_seen >= SEEN_EVERY


def needs_reminder(alert: Alert, now: datetime) -> bool:
    is_silenced = alert.silenced_until is not None and now < alert.silenced_until
    return alert.remind_at is not None and alert.remind_at <= now and not is_silenced
