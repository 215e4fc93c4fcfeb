# SPDX-License-Identifier: Apache-2.0
"""Takes notifications in, decides what each leads to, stores it. Touches the database only, never storage or Spark."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property, lru_cache

from lakehand.core.intake_cache import IntakeCache
from lakehand.core.ports import Arrival, Store
from lakehand.core.rate_limits import EventThrottle, RateLimiter
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, Moved
from lakehand.domain.events import Event
from lakehand.domain.locations import Warehouses, normalise
from lakehand.domain.processes import Instant, Json, TableProcess
from lakehand.domain.tables import Format, Table, TableId, TableSpec

MOST_INSTANTS = 1000
LONGEST_NAME = 250
MOST_PLACES, MOST_PROCESSES = 20_000, 1000
AHEAD = timedelta(days=1)  # instants are local times of the writer
COMPACTION = Action.register("compaction")
HUDI = Format("hudi")

# Sizes and counts only: nothing here loads a class, a file or a script, or lowers a retention.
EXTRA_PARAMETERS = frozenset(
    {
        "hoodie.compaction.target.io",
        "hoodie.compaction.lazy.block.read",
        "hoodie.memory.compaction.fraction",
        "hoodie.parquet.max.file.size",
        "hoodie.parquet.small.file.limit",
        "hoodie.clustering.plan.strategy.target.file.max.bytes",
        "hoodie.clustering.plan.strategy.small.file.limit",
        "hoodie.clustering.plan.strategy.max.num.groups",
        "hoodie.clustering.plan.strategy.max.bytes.per.group",
        "hoodie.cleaner.parallelism",
    }
)
_INSTANT = re.compile(r"\d{14}|\d{17}")
_VALUE = re.compile(r"[A-Za-z0-9_.:+-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A writer's word, as it arrived: nothing in it is trusted."""

    source: str  # "wire" or "callback"
    location: str
    action: Action | None = None  # None: something was committed, look at the table
    instants: Sequence[str] = ()
    db_name: str = ""
    table_name: str = ""
    owner: str = "default"
    queue: str = "default"
    parameters: Mapping[str, str] = field(default_factory=dict)  # resource, parallelism
    extra_parameters: Mapping[str, str] = field(default_factory=dict)
    register: frozenset[Action] = frozenset()  # register an unknown table with these actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    stored: bool  # durable: the answer may say so
    message: str
    table: TableId | None = None


@dataclass(frozen=True, kw_only=True)
class Intake:
    store: Store
    warehouses: Warehouses
    heartbeat_timeout: timedelta
    rate_limiter: RateLimiter  # bounds how fast strangers may register tables
    wake: Callable[[], None]  # tells the loops of this process that there is something to do
    throttle: EventThrottle = field(default_factory=EventThrottle)  # bounds how many different troubles are kept
    memory: IntakeCache | None = None  # None: remember nothing
    _processes: dict[tuple[object, ...], TableProcess] = field(default_factory=dict)
    _places: dict[tuple[str, ...], str] = field(default_factory=dict)

    @cached_property
    def remembered(self) -> IntakeCache:
        return self.memory or IntakeCache(store=self.store)

    def record(self, notifications: Sequence[Notification], *, faults: Sequence[Event] = ()) -> Sequence[Receipt]:
        """Store a batch, durably, in one transaction. What is wrong with one notification harms no other.

        ``faults`` are what a face could not even read as a notification; they are kept as events.
        """
        now = self.remembered.now()
        try:
            return self.store_batch(notifications, faults, now)
        except Moved:  # a table that we remembered is gone
            self.remembered.forget()
            return self.store_batch(notifications, faults, now)

    def store_batch(
        self, notifications: Sequence[Notification], faults: Sequence[Event], now: datetime
    ) -> Sequence[Receipt]:
        read = [self.read(n) for n in notifications]
        known = self.remembered.tables({r for r in read if not isinstance(r, Refused)})
        notes: list[Event] = [*faults]
        arrivals = [self.arrival(n, r, known, notes, now) for n, r in zip(notifications, read, strict=True)]
        accepted = [a for a in arrivals if isinstance(a, Arrival)]
        ids = iter(self.store.inbox.store(accepted, self.throttle.bounded(notes, now), now=now))
        if accepted:
            self.wake()
        return [receipt(a, ids) for a in arrivals]

    def read(self, notification: Notification) -> "str | Refused":
        """The normalised location, or why there is none; writers repeat themselves, so that it is worked out once."""
        n = notification
        key = (n.location, n.db_name, n.table_name, n.owner, n.queue)
        known = self._places.get(key)
        if known is not None:
            return known
        read = self.read_anew(notification)
        if not isinstance(read, Refused):  # what was refused may be long, and need not be quick
            if len(self._places) >= MOST_PLACES:
                self._places.clear()
            self._places[key] = read
        return read

    def read_anew(self, notification: Notification) -> "str | Refused":
        try:
            location = normalise(notification.location)
            self.warehouses.admit(location)
            refuse_long_names(notification)
        except Invalid as error:
            return Refused(str(error))
        return location

    def arrival(
        self,
        notification: Notification,
        read: "str | Refused",
        known: Mapping[str, Table],
        notes: list[Event],
        now: datetime,
    ) -> "Arrival | Refused":
        if isinstance(read, Refused):
            return refusal(notification, read, notes)
        table = known.get(read)
        wanted = table.spec.action_types if table else self.first_actions(notification)
        if not wanted and table is None:
            return refusal(notification, Refused(how_to_register(read)), notes)
        if table is None and not self.rate_limiter.lets_pass(now):
            return refusal(notification, Refused("too many new tables at once; register it by the API"), notes)
        spec, is_known = (table.spec, True) if table else (self.spec_of(notification, read, wanted), False)
        note = None if is_known else registered(spec, notification, now)
        if notification.action is None:
            return Arrival(table=spec, is_known=is_known, note=note)
        if notification.action not in wanted:
            return Arrival(table=spec, is_known=is_known, note=note or hint(notification, table))
        return Arrival(
            table=spec,
            is_known=is_known,
            note=note,
            instants=good_instants(notification, notes, now),
            process=self.process_of(notification, notes),
        )

    def process_of(self, notification: Notification, notes: list[Event]) -> TableProcess:
        """The same object for the same wish, as long as all of it is allowed and so is short."""
        n = notification
        key = (n.action, n.source, tuple(n.parameters.items()), tuple(n.extra_parameters.items()))
        known = self._processes.get(key)
        if known is not None:
            return known
        process = process_of(notification, notes)
        options = process.parameters["options"]
        if len(process.parameters) == len(n.parameters) + 1 and options == n.extra_parameters:
            if len(self._processes) >= MOST_PROCESSES:
                self._processes.clear()
            self._processes[key] = process
        return process

    def first_actions(self, notification: Notification) -> frozenset[Action]:
        if notification.register:
            return notification.register
        return frozenset({COMPACTION}) if notification.action == COMPACTION else frozenset()

    def spec_of(self, notification: Notification, location: str, wanted: frozenset[Action]) -> TableSpec:
        return TableSpec(
            location=location,
            format=HUDI,
            db_name=notification.db_name,
            table_name=notification.table_name or location.rsplit("/", 1)[-1][:LONGEST_NAME],
            owner=notification.owner or "default",
            queue=notification.queue or "default",
            action_types=wanted,
            heartbeat_timeout=self.heartbeat_timeout,
        )


class Refused(str):
    """Why a notification leads to nothing."""

    __slots__ = ()


def receipt(arrival: Arrival | Refused, ids: Iterator[TableId]) -> Receipt:
    if isinstance(arrival, Refused):
        return Receipt(stored=False, message=str(arrival))
    return Receipt(stored=True, message="stored", table=next(ids))


def refusal(notification: Notification, why: Refused, notes: list[Event]) -> Refused:
    notes.append(
        event(
            "intake.refused",
            f"a {notification.source} notification was refused: {why}",
            {"location": notification.location[:LONGEST_NAME], "action": notification.action or ""},
        )
    )
    return why


def hint(notification: Notification, table: Table | None) -> Event:
    name = table.name if table else notification.table_name
    message = (
        f"a {notification.action} request arrived for {name}, whose action types do not include it, so the writer is "
        f"left to run it; to let Lakehand run it: lakehand tables change {table.id if table else 'ID'} "
        f"--actions +{notification.action}, and put {notification.action} into the writer's manager actions"
    )
    return event("intake.hint", message, {}, table=table.id if table else None)


def registered(spec: TableSpec, notification: Notification, now: datetime) -> Event:
    """Several notifications of one batch register a table once."""
    actions = ", ".join(sorted(spec.action_types))
    message = f"{spec.location} was registered for {actions} by the {notification.source}"
    told = event("table.registered", message, {"by": notification.source})
    return replace(told, fingerprint=f"{told.fingerprint}:{now.isoformat()}")


def how_to_register(location: str) -> str:
    return f"{location!r} is not registered: POST /api/v1/tables, or lakehand tables add {location}"


def good_instants(notification: Notification, notes: list[Event], now: datetime) -> Sequence[Instant]:
    """The instants that make sense; the others are noted."""
    latest = latest_instant(now)
    good = [i for i in notification.instants[:MOST_INSTANTS] if _INSTANT.fullmatch(i) and i[:14] <= latest]
    known = set(good)
    bad = [i for i in notification.instants if i not in known] if len(good) < len(notification.instants) else []
    if bad:
        notes.append(
            event(
                "intake.odd-instant",
                f"{len(bad)} instants are odd (not 14 or 17 digits, in the future, or too many): {bad[0][:40]!r}",
                {"location": notification.location[:LONGEST_NAME]},
            )
        )
    return [Instant(i) for i in dict.fromkeys(good)]


@lru_cache(maxsize=8)
def latest_instant(now: datetime) -> str:
    return (now + AHEAD).astimezone(timezone.utc).strftime("%Y%m%d%H%M%S")


def process_of(notification: Notification, notes: list[Event]) -> TableProcess:
    """What the wire asked for; the factory completes it from the table when it is about to run."""
    assert notification.action is not None
    extra: dict[str, Json] = {}
    for key, value in notification.extra_parameters.items():
        if key in EXTRA_PARAMETERS and _VALUE.fullmatch(value):
            extra[key] = value
        else:
            notes.append(
                event("intake.parameter-refused", f"extra parameter {key[:80]!r} is not on the allow-list", {})
            )
    parameters: dict[str, Json] = {
        k: v for k, v in notification.parameters.items() if _VALUE.fullmatch(v.replace(",", ":"))
    }
    return TableProcess(
        action=notification.action,
        parameters={**parameters, "options": extra},
        reason=f"the writer asked for it by {notification.source}",
    )


def refuse_long_names(notification: Notification) -> None:
    for name in (notification.db_name, notification.table_name, notification.owner, notification.queue):
        if len(name) > LONGEST_NAME or not (name.isprintable()):
            raise Invalid(f"a name has at most {LONGEST_NAME} printable characters; this one starts {name[:40]!r}")


def event(kind: str, message: str, detail: Mapping[str, Json], *, table: TableId | None = None) -> Event:
    """An event that repeats without growing: equal ones are counted in one row."""
    print_of = hashlib.sha256(f"{kind}\n{message}\n{detail}".encode()).hexdigest()[:40]
    return Event(kind=kind, message=message, detail=detail, table=table, fingerprint=print_of)
