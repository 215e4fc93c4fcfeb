# SPDX-License-Identifier: Apache-2.0
"""Turns commit events into notifications: which table each is about, and whether it says anything new.

An event is a hint. It makes the schedules of its table due; a doubled, late or lost one changes nothing else.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lakehand.api.writers import MOST_COMMITS, CommitData, ReportedCommit
from lakehand.core.intake.notifications import Intake, Receipt, normalised
from lakehand.core.plugins.registry import Plugins
from lakehand.core.rate_limits import RecentKeys
from lakehand.core.services.catalogs import ServedCatalog
from lakehand.domain.access import Caller, Role
from lakehand.domain.actions import Action
from lakehand.domain.cached_property import cached_property
from lakehand.domain.errors import Invalid, LakehandError
from lakehand.domain.events import Event
from lakehand.domain.locations import is_under, normalise_prefix
from lakehand.domain.notifications import CommitEvent, CommitResult, Notification, Outcome, RefusedNotification
from lakehand.domain.tables import Format, Table

SOURCE = "event"
SHOWN = 250  # characters of a location or name that are shown
NOT_A_COMMIT = "the object is not a commit of a table"
REPEATED = "the same event came before"
SYNCED = "the table is not known yet: its catalog is read now"
UNKNOWN = "the table is not registered: lakehand tables add LOCATION, or follow its catalog"
AMBIGUOUS = "several tables have this name: name the catalog, or the location"
OUTSIDE = "the location may not be served"
NAMELESS = "the event names no table: give a location, or a catalog with a table"
FORMATLESS = "the event may register the table, but names no format that is known here, or no action of that format"


class CommitTarget(NamedTuple):
    """The table that an event is about."""

    event: CommitEvent
    location: str
    format: str


Decided = CommitResult | Notification


def no_metrics(*_values: object) -> None:
    """The default: nothing is counted."""


@dataclass(frozen=True, kw_only=True)
class CommitIntake:
    """Called by several threads. A repeat that comes at the same moment counts as new: one more evaluation."""

    intake: Intake
    plugins: Plugins
    catalogs: Mapping[str, ServedCatalog] = field(default_factory=dict)
    sync_catalogs: Callable[[], None]  # asks for it, does not wait
    recent: RecentKeys = field(default_factory=RecentKeys)
    on_results: Callable[[str, str, int], None] = no_metrics  # source, outcome, how many

    def report(self, caller: Caller, commits: Sequence[ReportedCommit]) -> Sequence[CommitResult]:
        """What a caller of the API says. Events that come by HTTP have passed the same check when they are read."""
        caller.need_for_all(Role.OPERATOR)
        if len(commits) > MOST_COMMITS:
            raise Invalid(f"the request has more than {MOST_COMMITS} commits: send them in several requests")
        return self.record_all([event_of(one, key_of(one.source, one.id) if one.id else "") for one in commits])

    def record_all(self, items: Sequence[CommitEvent | CommitResult]) -> Sequence[CommitResult]:
        """In transactions of a bounded size. What was refused before is counted with the rest."""
        events = [item for item in items if isinstance(item, CommitEvent)]
        results: list[CommitResult] = []
        for start in range(0, len(events), MOST_COMMITS):
            results += self.record(events[start : start + MOST_COMMITS])
        recorded = iter(results)
        every = [next(recorded) if isinstance(item, CommitEvent) else item for item in items]
        for outcome, times in Counter(str(result.outcome) for result in every).items():
            self.on_results(SOURCE, outcome, times)
        return every

    def record(self, events: Sequence[CommitEvent]) -> Sequence[CommitResult]:
        """What became of each event. Those that are stored are durable, all in one transaction."""
        found = self.with_names([self.find(event) for event in self.without_repeats(events)])
        tables = self.known({one.location for one in found if isinstance(one, CommitTarget)})
        decided = [self.decide(one, tables) if isinstance(one, CommitTarget) else one for one in found]
        receipts = self.store(decided)
        results = [result_of(one, receipts) for one in decided]
        self.recent.add(e.key for e, r in zip(events, results, strict=True) if r.outcome is not Outcome.REFUSED)
        if any(result.reason == SYNCED for result in results):
            self.sync_catalogs()
        return results

    def without_repeats(self, events: Sequence[CommitEvent]) -> Sequence[CommitEvent | CommitResult]:
        fresh: list[CommitEvent | CommitResult] = []
        keys: set[str] = set()
        for event in events:
            is_repeated = bool(event.key) and (event.key in self.recent or event.key in keys)
            keys.add(event.key)
            fresh.append(ignored(REPEATED, event) if is_repeated else event)
        return fresh

    def find(self, event: CommitEvent | CommitResult) -> CommitEvent | CommitResult | CommitTarget:
        """The table by the event's object or location; the event itself if it has only a name."""
        if isinstance(event, CommitResult):
            return event
        if event.object:
            return self.find_object(event)
        if event.location:
            return self.locate(event, event.location, event.format)
        return event if event.table_name else refused(NAMELESS, event)

    def find_object(self, event: CommitEvent) -> CommitResult | CommitTarget:
        for name, one in self.plugins.formats.items():
            try:
                commit = one.commit_of(event.object)
            except (LakehandError, OSError):  # a broken plugin, which is counted
                continue
            if commit is not None:
                return self.locate(event, commit.location, name)
        return ignored(NOT_A_COMMIT, event)

    def locate(self, event: CommitEvent, location: str, format: str) -> CommitResult | CommitTarget:
        warehouses = self.intake.warehouses
        try:
            location = warehouses.respell(normalised(location))
            warehouses.admit(location)
        except Invalid:
            return refused(OUTSIDE, event)
        return CommitTarget(event, location, format)

    def with_names(
        self, found: Sequence[CommitEvent | CommitResult | CommitTarget]
    ) -> Sequence[CommitResult | CommitTarget]:  # fmt: skip
        names = {(one.db_name, one.table_name) for one in found if isinstance(one, CommitEvent)}
        tables = self.intake.store.tables.by_names(names) if names else ()
        by_name: dict[tuple[str, str], list[Table]] = {}
        for table in tables:
            by_name.setdefault((table.spec.db_name, table.spec.table_name), []).append(table)
        return [self.find_name(one, by_name) if isinstance(one, CommitEvent) else one for one in found]

    def find_name(
        self, event: CommitEvent, tables: Mapping[tuple[str, str], Sequence[Table]]
    ) -> CommitResult | CommitTarget:
        same = tables.get((event.db_name, event.table_name), ())
        same = [table for table in same if event.catalog in ("", table.spec.catalog)]
        if len(same) > 1:
            return refused(AMBIGUOUS, event)
        if same:
            return CommitTarget(event, same[0].location, same[0].format)
        return waiting(event) if self.is_followed(event.catalog) else refused(UNKNOWN, event)

    def known(self, locations: set[str]) -> Mapping[str, Table]:
        return self.intake.lookups.tables(locations) if locations else {}

    def decide(self, target: CommitTarget, tables: Mapping[str, Table]) -> Decided:
        event, location = target.event, target.location
        if location in tables:
            return Notification(source=SOURCE, location=location, partitions=event.partitions)
        if self.is_followed(event.catalog) or any(is_under(location, place) for place in self.followed):
            return waiting(event)
        if not event.register:
            return refused(UNKNOWN, event)
        wanted = event.register & set(self.plugins.actions_of(Format(target.format)))
        if target.format not in self.plugins.formats or not wanted:
            return refused(FORMATLESS, event)
        return Notification(
            source=SOURCE, location=location, format=Format(target.format), register=frozenset(wanted),
            db_name=event.db_name, table_name=event.table_name, partitions=event.partitions,
        )  # fmt: skip

    def is_followed(self, catalog: str) -> bool:
        return catalog in self.catalogs and self.catalogs[catalog].sync

    @cached_property
    def followed(self) -> Sequence[str]:
        """The folders of the followed catalogs. The warehouse of a catalog server may be a mere name."""
        folders = []
        for served in self.catalogs.values():
            try:
                folders += [normalise_prefix(served.catalog.warehouse)] if served.sync else []
            except Invalid:
                continue
        return [self.intake.warehouses.respell(folder) for folder in folders]

    def store(self, decided: Sequence[Decided]) -> Mapping[str, Receipt]:
        """One notification per table, and one event per reason of a refusal. Nothing is written for nothing."""
        notifications: dict[str, Notification] = {}
        for one in decided:
            if isinstance(one, Notification):
                notifications[one.location] = joined(notifications.get(one.location), one)
        refusals = [one for one in decided if isinstance(one, CommitResult) and one.outcome is Outcome.REFUSED]
        rows: list[Notification | RefusedNotification] = [*notifications.values(), *refusal_events(refusals)]
        receipts = self.intake.record(rows) if rows else ()
        return dict(zip(notifications, receipts, strict=False))


def key_of(source: str, id: str) -> str:
    """Short, however long the parts are: many of them are kept."""
    return hashlib.blake2b(f"{source}\n{id}".encode("utf-8", "replace"), digest_size=16).hexdigest()


def event_of(
    data: CommitData, key: str, *, catalog: str = "", register: frozenset[Action] = frozenset()
) -> CommitEvent:  # fmt: skip
    """``catalog``: of a table that is named without one. ``register``: an unknown table, with these actions."""
    db_name, _, table_name = data.table.rpartition(".")
    return CommitEvent(
        key=key, location=data.location or "", catalog=data.catalog or catalog, db_name=db_name, table_name=table_name,
        format=data.format, partitions=tuple(data.partitions), register=register,
    )  # fmt: skip


def joined(known: Notification | None, new: Notification) -> Notification:
    """Of two events about a table, the newer one with the partitions of both."""
    if known is None or not known.partitions:
        return new
    return replace(new, partitions=(*known.partitions, *new.partitions))


def result_of(decided: Decided, receipts: Mapping[str, Receipt]) -> CommitResult:
    if isinstance(decided, CommitResult):
        return decided
    receipt = receipts[decided.location]
    outcome = Outcome.STORED if receipt.stored else Outcome.REFUSED
    reason = "" if receipt.stored else receipt.message
    return CommitResult(outcome=outcome, reason=reason, example=decided.location, table=receipt.table)


def refusal_events(refusals: Sequence[CommitResult]) -> Sequence[RefusedNotification]:
    """A burst is one row per reason, with a count."""
    counts = Counter(one.reason for one in refusals)
    last = {one.reason: one.example for one in refusals}
    return [RefusedNotification(reason, refusal_event(reason, last[reason], n)) for reason, n in counts.items()]


def refusal_event(reason: str, example: str, times: int) -> Event:
    event = Event.counted("commits.refused", f"commit events were refused: {reason}")
    return replace(event, detail={"last": example}, times=times)


def ignored(reason: str, event: CommitEvent) -> CommitResult:
    return CommitResult(outcome=Outcome.IGNORED, reason=reason, example=name_of(event))


def waiting(event: CommitEvent) -> CommitResult:
    return CommitResult(outcome=Outcome.WAITING, reason=SYNCED, example=name_of(event))


def refused(reason: str, event: CommitEvent) -> CommitResult:
    return CommitResult(outcome=Outcome.REFUSED, reason=reason, example=name_of(event))


def name_of(event: CommitEvent) -> str:
    names = ".".join(part for part in (event.db_name, event.table_name) if part)
    return (event.object or event.location or (f"{event.catalog}:{names}" if event.catalog else names))[:SHOWN]
