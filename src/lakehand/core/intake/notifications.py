# SPDX-License-Identifier: Apache-2.0
"""Turns notifications into rows and stores them. Touches only the database, never storage or Spark."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache

from lakehand.core.cpu_share import CpuShare
from lakehand.core.overlaps import OverlapGuard
from lakehand.core.ports import NotificationRules, Store
from lakehand.core.rate_limits import EventThrottle, RateLimiter
from lakehand.domain.cached_property import cached_property
from lakehand.domain.errors import Invalid, LocationTaken, Moved
from lakehand.domain.events import Event
from lakehand.domain.locations import Warehouses, normalise
from lakehand.domain.notifications import InboxRow, Notification, RefusedNotification
from lakehand.domain.processes import Instant, Json, TableProcess
from lakehand.domain.tables import Table, TableId, TableSpec

MOST = 20_000
MOST_INSTANTS = 1000
LONGEST_NAME = 250
normalised = lru_cache(maxsize=20_000)(normalise)  # writers repeat their locations


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    stored: bool  # durable: the answer may say so
    message: str
    table: TableId | None = None


@dataclass(frozen=True, kw_only=True)
class Intake:
    store: Store
    rules: NotificationRules
    warehouses: Warehouses
    heartbeat_timeout: timedelta
    rate_limiter: RateLimiter  # bounds how fast notifications register tables
    wake: Callable[[], None]  # wakes the loops of this process
    throttle: EventThrottle = field(default_factory=EventThrottle)  # bounds how many different problems are stored
    cache: IntakeCache | None = None  # None: nothing is cached
    cpu_share: CpuShare = field(default_factory=CpuShare)  # told of each batch

    @cached_property
    def lookups(self) -> IntakeCache:
        return self.cache or IntakeCache(store=self.store)

    def record(self, notifications: Sequence[Notification | RefusedNotification]) -> Sequence[Receipt]:
        """Store a batch, durably, in one transaction. A bad notification harms no other.

        A request that could not be parsed comes as a refused notification: only its event is stored.
        """
        began, now = time.monotonic(), self.lookups.now()
        try:
            return self.store_batch(notifications, now)
        except Moved:  # a cached table was removed
            self.lookups.forget()
            return self.store_batch(notifications, now)
        finally:
            ended = time.monotonic()
            self.cpu_share.note_recording(ended - began, ended)

    def store_batch(
        self, notifications: Sequence[Notification | RefusedNotification], now: datetime
    ) -> Sequence[Receipt]:
        located = [self.locate(n) for n in notifications]
        tables = self.lookups.tables({n.location for n in located if isinstance(n, Notification)})
        warnings = [w for n in notifications if isinstance(n, Notification) for w in n.warnings]
        decided = [self.decide(n, tables.get(n.location), warnings, now) if isinstance(n, Notification) else n
                   for n in located]  # fmt: skip
        rows = [d for d in decided if isinstance(d, InboxRow)]
        events = [*warnings, *(d.event for d in decided if isinstance(d, RefusedNotification))]
        ids = iter(self.store.inbox.store(rows, self.throttle.bounded(events, now), now=now))
        if rows:
            self.wake()
        return [receipt(d, ids) for d in decided]

    def locate(self, notification: Notification | RefusedNotification) -> Notification | RefusedNotification:
        """The notification with its location normalised, if the location may be served."""
        if isinstance(notification, RefusedNotification):
            return notification
        try:
            location = self.warehouses.respell(normalised(notification.location))
            self.warehouses.admit(location)
            refuse_long_names(notification)
        except Invalid as error:
            return refused(notification, str(error))
        return notification if location == notification.location else replace(notification, location=location)

    def decide(
        self, notification: Notification, table: Table | None, warnings: list[Event], now: datetime
    ) -> InboxRow | RefusedNotification:
        if table is None:
            spec = self.new_spec(notification, now)
            if isinstance(spec, RefusedNotification):
                return spec
            note = registration_event(spec, notification, now)
        else:
            spec, note = table.spec, None
        is_wanted = notification.action in spec.action_types
        if notification.action is not None and not is_wanted:
            note = note or hint(notification, table)
        return InboxRow(
            table=spec,
            is_known=table is not None,
            instants=self.instants_of(notification, warnings, now) if is_wanted else (),
            process=self.process_of(notification, warnings) if is_wanted else None,
            engine=notification.engine,
            queue=own_name(notification.queue),
            owner=own_name(notification.owner),
            retry_on_error=notification.retry_on_error,
            partitions=notification.partitions,
            note=note,
        )

    def new_spec(self, notification: Notification, now: datetime) -> TableSpec | RefusedNotification:
        """The table to register, if the notification may do that."""
        wanted = notification.register or self.rules.first_actions & {notification.action}
        if not wanted:
            return refused(notification, how_to_register(notification.location))
        if not self.rate_limiter.lets_pass(now):
            return refused(notification, "too many new tables at once: register it by the API")
        try:
            OverlapGuard(store=self.store).check_new(notification.location)  # links are followed at each admission
        except LocationTaken as error:
            return refused(notification, str(error))
        return TableSpec(
            location=notification.location,
            format=notification.format or self.rules.format,
            db_name=notification.db_name,
            table_name=notification.table_name or notification.location.rsplit("/", 1)[-1][:LONGEST_NAME],
            owner=notification.owner or "default",
            queue=notification.queue or "default",
            action_types=wanted,
            heartbeat_timeout=self.heartbeat_timeout,
        )

    def instants_of(self, notification: Notification, warnings: list[Event], now: datetime) -> Sequence[Instant]:
        """The instants that can be true; the others become one warning."""
        given = notification.instants
        good = self.rules.plausible_instants(given[:MOST_INSTANTS], now)
        if len(good) < len(given):
            known = set(good)
            bad = [i for i in given if i not in known]
            warnings += [odd_instants(notification, bad)] if bad else []
        return good

    def process_of(self, notification: Notification, warnings: list[Event]) -> TableProcess:
        """What the writer asked for; the factory completes it from the table when it is admitted."""
        assert notification.action is not None
        rules, extra = self.rules, notification.extra_parameters
        options: dict[str, Json] = {k: v for k, v in extra.items() if k in rules.options and rules.is_value(v)}
        warnings += [refused_parameter(key) for key in extra if key not in options]
        parameters = {k: v for k, v in notification.parameters.items() if rules.is_value(v.replace(",", ":"))}
        return TableProcess(
            action=notification.action,
            parameters={**parameters, "options": options},
            reason=f"the writer asked for it by {notification.source}",
        )


def own_name(name: str) -> str | None:
    """ "default", what RFC-43 and Hudi's client say if nobody says anything, means the table's."""
    return name if name not in ("", "default") else None


def receipt(decided: InboxRow | RefusedNotification, ids: Iterator[TableId]) -> Receipt:
    if isinstance(decided, RefusedNotification):
        return Receipt(stored=False, message=decided.message)
    return Receipt(stored=True, message="stored", table=next(ids))


def refused(notification: Notification, why: str) -> RefusedNotification:
    detail = {"location": notification.location[:LONGEST_NAME], "action": notification.action or ""}
    message = f"a {notification.source} notification was refused: {why}"
    return RefusedNotification(why, Event.counted("intake.refused", message, detail))


def hint(notification: Notification, table: Table | None) -> Event:
    name = table.name if table else notification.table_name
    message = (
        f"a {notification.action} request arrived for {name}, whose action types do not include it, so the writer is "
        f"left to run it; to let Lakehand run it: lakehand tables change {table.id if table else 'ID'} "
        f"--actions +{notification.action}, and put {notification.action} into the writer's manager actions"
    )
    return Event.counted("intake.hint", message, table=table.id if table else None)


def registration_event(spec: TableSpec, notification: Notification, now: datetime) -> Event:
    """Stored once, even if several notifications of one batch register the table."""
    actions = ", ".join(sorted(spec.action_types))
    message = f"{spec.location} was registered for {actions} by the {notification.source}"
    event = Event.counted("table.registered", message, {"by": notification.source})
    return replace(event, fingerprint=f"{event.fingerprint}:{now.isoformat()}")


def how_to_register(location: str) -> str:
    return f"{location!r} is not registered: POST /api/v1/tables, or lakehand tables add {location}"


def odd_instants(notification: Notification, bad: Sequence[str]) -> Event:
    message = f"{len(bad)} instants are odd (malformed, in the future, or too many): {bad[0][:40]!r}"
    return Event.counted("intake.odd-instant", message, {"location": notification.location[:LONGEST_NAME]})


def refused_parameter(key: str) -> Event:
    return Event.counted("intake.parameter-refused", f"extra parameter {key[:80]!r} is not on the allow-list")


def refuse_long_names(notification: Notification) -> None:
    for name in (notification.db_name, notification.table_name, notification.owner, notification.queue):
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise Invalid(f"a name has at most {LONGEST_NAME} printable characters; this one starts {name[:40]!r}")
