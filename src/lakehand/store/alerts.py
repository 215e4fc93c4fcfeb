# SPDX-License-Identifier: Apache-2.0
"""Alerts in SQL: what may be worth one, what is open, changes with their messages in one transaction, and the outbox.

Messages are claimed by compare-and-set with a lease, so that one instance sends each.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Row, and_, bindparam, delete, exists, func, insert, or_, select, update

from lakehand.core.ports import AlertsChanged, LostLease, Page, TableTrouble, Troubles
from lakehand.domain.alerts import (
    Alert,
    AlertChanges,
    AlertId,
    AlertKind,
    AlertMessage,
    AlertRules,
    Cause,
    MessageId,
    MessageKind,
    Severity,
)
from lakehand.domain.errors import NotFound
from lakehand.domain.events import Event
from lakehand.domain.operations import InstanceId, LeaseToken, OperationId, Status
from lakehand.domain.tables import TableId
from lakehand.store.clock import millis_or_none, span_to_millis, to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.dialects import insert_missing, upsert
from lakehand.store.documents import storable_text, to_failure
from lakehand.store.events import EventWriter, shorten
from lakehand.store.operation_queries import IS_SERVED
from lakehand.store.paging import read_page
from lakehand.store.schema import Millis, Number, alert, alert_message, event, operation, schedule, tbl
from lakehand.store.tables import chunks

a, m = alert.c, alert_message.c
MINUTE = timedelta(minutes=1)
SUMMARY_DELAY = timedelta(seconds=15)  # after the minute that it is about
Values = dict[str, Any]
c, o = tbl.c, operation.c
TABLE = (c.id, c.db_name, c.table_name, c.owner, c.queue, c.format)
LIMIT, SINCE = bindparam("limit", type_=Number), bindparam("since", type_=Millis)
FAILED = (
    select(
        *TABLE, schedule.c.action, schedule.c.failed_operation.label("operation"), o.reason, o.failure,
        o.finish_time.label("since"),
    )
    .join(schedule, schedule.c.tbl_id == c.id)
    .join(operation, o.operation_id == schedule.c.failed_operation, isouter=True)
    .where(IS_SERVED, schedule.c.failed_operation > 0)
    .order_by(c.id, schedule.c.action)
    .limit(LIMIT)
)  # fmt: skip
UNREADABLE = (
    select(*TABLE, c.problem.label("reason"), c.problem_time.label("since"))
    .where(IS_SERVED, c.problem.is_not(None), c.problem_time <= SINCE)
    .order_by(c.id)
    .limit(LIMIT)
)
PAUSED = (
    select(*TABLE, c.pause_reason.label("reason"), c.update_time.label("since"))
    .where(c.paused.is_(True), c.removed.is_(False), c.pause_reason.is_not(None))
    .order_by(c.id)
    .limit(LIMIT)
)
BECAME_UNKNOWN = (
    select(func.max(event.c.event_time))
    .where(event.c.operation_id == o.operation_id, event.c.kind == "operation.unknown")
    .scalar_subquery()
)
UNKNOWN_SINCE = func.coalesce(BECAME_UNKNOWN, o.update_time)
UNKNOWN = (
    select(*TABLE, o.action, o.operation_id.label("operation"), o.reason, UNKNOWN_SINCE.label("since"))
    .join(tbl, c.id == o.tbl_id)
    .where(o.status == Status.UNKNOWN.value, UNKNOWN_SINCE <= SINCE)
    .order_by(o.operation_id)
    .limit(LIMIT)
)
LOST = (
    select(event.c.message, event.c.event_id)
    .where(event.c.event_time >= SINCE, event.c.kind == "operation.rescued", event.c.message.startswith("taken over"))
    .order_by(event.c.event_id)
    .limit(LIMIT)
)
NOW = bindparam("now", type_=Millis)
IS_DUE = and_(m.end_time.is_(None), m.due <= NOW, or_(m.lease_until.is_(None), m.lease_until <= NOW))
earlier = alert_message.alias("earlier")
COMES_LATER = exists().where(
    earlier.c.alert_id == m.alert_id,
    earlier.c.receiver == m.receiver,
    earlier.c.message_id < m.message_id,
    earlier.c.end_time.is_(None),
)
DUE_RECEIVERS = select(m.receiver).where(IS_DUE, ~COMES_LATER).distinct()
DUE = (
    select(m.message_id)
    .where(IS_DUE, m.receiver == bindparam("receiver"), ~COMES_LATER)
    .order_by(m.due, m.message_id)
    .limit(bindparam("limit"))
)
# The whole condition again: rivals saw the same messages, and win some of them.
CLAIM = (
    update(alert_message)
    .where(m.message_id.in_(bindparam("ids", expanding=True)), IS_DUE)
    .values(
        lease_holder=bindparam("holder"), lease_token=bindparam("token"), lease_until=bindparam("until"),
        attempts=m.attempts + 1,
    )
)  # fmt: skip
WON = select(alert_message).where(m.lease_token == bindparam("token")).order_by(m.due, m.message_id)
NO_LEASE = {"lease_holder": None, "lease_token": None, "lease_until": None}
UNSENT = timedelta(days=3)  # messages are sent for so long; then nobody claims them any more
IS_OPEN = a.open_key.is_not(None)


def key_of(cause: Cause) -> str:
    return shorten(cause.key) or ""


def texts_of(cause: Cause) -> dict[str, Any]:
    """What may differ when it happens again."""
    return {
        "title": storable_text(cause.title), "message": storable_text(cause.message),
        "occurrence": cause.occurrence[:250], "operation_id": cause.operation,
    }  # fmt: skip


def new_row(cause: Cause, rules: AlertRules, *, token: str, now: datetime) -> dict[str, Any]:
    at = to_millis(now)
    return texts_of(cause) | {
        "cause_key": key_of(cause), "open_key": key_of(cause), "open_token": token, "instance": cause.instance,
        "kind": cause.kind.value, "severity": cause.severity.value, "owner": cause.owner, "queue": cause.queue,
        "format": cause.format, "tbl_id": cause.table, "times": 1, "open_time": at, "seen_time": at,
        "remind_time": to_millis(now + rules.reminder),
    }  # fmt: skip


def to_cause(row: Row[Any]) -> Cause:
    return Cause(
        key=row.cause_key, kind=AlertKind(row.kind), title=row.title, message=row.message, occurrence=row.occurrence,
        table=row.tbl_id, operation=row.operation_id, owner=row.owner, queue=row.queue, format=row.format,
        instance=row.instance,
    )  # fmt: skip


def to_alert(row: Row[Any]) -> Alert:
    return Alert(
        id=AlertId(row.alert_id), cause=to_cause(row), opened_at=to_time(row.open_time),
        last_seen=to_time(row.seen_time), resolved_at=to_time(row.resolve_time), count=row.times,
        silenced_until=to_time(row.silence_time), remind_at=to_time(row.remind_time),
    )  # fmt: skip


def to_message(row: Row[Any], alert: Alert | None) -> AlertMessage:
    severity = alert.cause.severity if alert else Severity(row.summary_key.rpartition(":")[2])
    return AlertMessage(
        id=MessageId(row.message_id), receiver=row.receiver, kind=MessageKind(row.kind), alert=alert, more=row.more,
        created_at=to_time(row.create_time), attempts=row.attempts, token=LeaseToken(row.lease_token),
        severity=severity,
    )  # fmt: skip


def summary_key(receiver: str, minute: int, severity: Severity) -> str:
    return f"{receiver}:{minute}:{severity}"


@dataclass(frozen=True, kw_only=True)
class AlertWriter:
    tx: Connection
    dialect: str
    events: EventWriter
    rules: AlertRules
    now: datetime

    @property
    def at(self) -> int:
        return to_millis(self.now)

    def open(self, causes: Sequence[Cause], *, read_at: datetime) -> int:
        """Sorted, so that two instances do not deadlock."""
        wanted = {key_of(cause): cause for cause in causes}
        fresh = sorted(set(wanted) - self.known(sorted(wanted), read_at))
        token = str(uuid4())
        rows = [new_row(wanted[key], self.rules, token=token, now=self.now) for key in fresh]
        if not rows:
            return 0
        self.tx.execute(insert_missing(self.dialect, alert), rows)
        ours = self.tx.execute(select(alert).where(a.open_token == token).order_by(a.alert_id)).all()
        opened = {int(row.alert_id): to_cause(row) for row in ours}
        self.write_opened(opened)
        self.record("alert.opened", "opened", opened)
        return len(opened)

    def known(self, keys: Sequence[str], read_at: datetime) -> set[str]:
        """Causes that are open, or that a rival has resolved since the open alerts were read."""
        is_known = or_(a.open_key.is_not(None), a.resolve_time >= to_millis(read_at))
        query = select(a.cause_key).where(is_known)
        return {key for part in chunks(keys) for key in self.tx.scalars(query.where(a.cause_key.in_(part)))}

    def write_opened(self, opened: Mapping[int, Cause]) -> None:
        """Each receiver gets its own messages up to the bound, and a summary of the rest."""
        free = self.free_messages()
        own: list[Values] = []
        more: Counter[tuple[str, Severity]] = Counter()
        for number, cause in opened.items():
            for receiver in self.rules.receivers_of(cause):
                if free[receiver] > 0:
                    own.append(self.message(number, cause, receiver, MessageKind.OPENED))
                else:
                    more[receiver, cause.severity] += 1
                free[receiver] -= 1
        self.insert(own)
        self.add_to_summaries(more)

    def free_messages(self) -> dict[str, int]:
        is_ours = m.receiver.in_(self.rules.receivers)
        is_recent = and_(m.create_time > to_millis(self.now - MINUTE), m.kind == MessageKind.OPENED.value)
        query = select(m.receiver, func.count()).where(is_ours, is_recent).group_by(m.receiver)
        used = {str(row[0]): int(row[1]) for row in self.tx.execute(query)}
        return {name: self.rules.most_per_minute - used.get(name, 0) for name in self.rules.receivers}

    def add_to_summaries(self, more: Mapping[tuple[str, Severity], int]) -> None:
        """One row per receiver, minute and severity, due after that minute. If it was sent before, it is sent again."""
        minute = self.at // 60_000
        end = datetime.fromtimestamp((minute + 1) * 60, self.now.tzinfo) + SUMMARY_DELAY
        statement = upsert(self.dialect, alert_message, ("summary_key",), set_=("due", "end_time"), add=("more",))
        for (receiver, severity), count in sorted(more.items()):
            row = self.row(None, receiver, MessageKind.SUMMARY, to_millis(self.rules.due(severity, end)))
            key = summary_key(receiver, minute, severity)
            self.tx.execute(statement, row | {"more": count, "end_time": None, "summary_key": key})

    def refresh(self, pairs: Iterable[tuple[Alert, Cause]]) -> None:
        """Two instances that see the same occurrence count it once."""
        for known, cause in pairs:
            is_same = cause.occurrence == known.cause.occurrence
            ours = and_(a.alert_id == known.id, a.open_key.is_not(None), a.occurrence == known.cause.occurrence)
            values = texts_of(cause) | {"seen_time": self.at, "times": a.times + (0 if is_same else 1)}
            self.tx.execute(update(alert).where(ours).values(values))

    def resolve(self, alerts: Iterable[Alert]) -> int:
        resolved: dict[int, Cause] = {}
        for one in alerts:
            ours = and_(a.alert_id == one.id, a.open_key.is_not(None))
            over = {"open_key": None, "resolve_time": self.at, "seen_time": self.at, "remind_time": None}
            if self.tx.execute(update(alert).where(ours).values(over)).rowcount:
                resolved[one.id] = one.cause
        self.insert(self.follow_ups(resolved, MessageKind.RESOLVED))
        self.record("alert.resolved", "resolved", resolved)
        return len(resolved)

    def remind(self, alerts: Iterable[Alert]) -> None:
        """Nobody gets a second message while one still waits."""
        reminded: dict[int, Cause] = {}
        for one in alerts:
            ours = and_(a.alert_id == one.id, a.remind_time == millis_or_none(one.remind_at))
            following = {"remind_time": to_millis(self.now + self.rules.reminder)}
            if self.tx.execute(update(alert).where(ours).values(following)).rowcount:
                reminded[one.id] = one.cause
        waiting = self.receivers(reminded, m.end_time.is_(None))
        rows = self.follow_ups(reminded, MessageKind.REMINDER)
        self.insert(row for row in rows if row["receiver"] not in waiting[row["alert_id"]])

    def follow_ups(self, causes: Mapping[int, Cause], kind: MessageKind) -> Iterator[Values]:
        """To the receivers that were, or will be, told that it opened."""
        informed = self.receivers(causes, m.kind == MessageKind.OPENED.value)
        for number, cause in causes.items():
            yield from (self.message(number, cause, receiver, kind) for receiver in sorted(informed[number]))

    def receivers(self, ids: Iterable[int], condition: Any) -> defaultdict[int, set[str]]:
        found: defaultdict[int, set[str]] = defaultdict(set)
        for part in chunks(sorted(ids)):
            query = select(m.alert_id, m.receiver).where(m.alert_id.in_(part), condition)
            for number, receiver in self.tx.execute(query):
                found[number].add(receiver)
        return found

    def message(self, id: int, cause: Cause, receiver: str, kind: MessageKind) -> Values:
        return self.row(id, receiver, kind, to_millis(self.rules.due(cause.severity, self.now)))

    def row(self, id: int | None, receiver: str, kind: MessageKind, due: int) -> Values:
        return {
            "alert_id": id, "receiver": receiver, "kind": kind.value, "due": due, "create_time": self.at,
            "attempts": 0, "more": 0, "last_error": "",
        }  # fmt: skip

    def insert(self, rows: Iterable[Values]) -> None:
        if listed := list(rows):
            self.tx.execute(insert(alert_message), listed)

    def record(self, kind: str, word: str, causes: Mapping[int, Cause]) -> None:
        self.events.write(
            self.tx, [alert_event(kind, word, number, cause) for number, cause in causes.items()], self.at
        )


def alert_event(kind: str, word: str, id: int, cause: Cause) -> Event:
    return Event(
        kind=kind, message=f"alert {id} {word}: {cause.title}", table=cause.table, operation=cause.operation,
        detail={"alert": id, "by": "lakehand"},
    )  # fmt: skip


def failure_text(row: Row[Any]) -> str:
    failure = to_failure(row.failure)
    return failure.message if failure else row.reason or "its operation is no longer stored"


def to_trouble(row: Row[Any], reason: str) -> TableTrouble:
    operation = getattr(row, "operation", None)
    return TableTrouble(
        table=TableId(row.id), name=f"{row.db_name}.{row.table_name}" if row.db_name else row.table_name,
        owner=row.owner, queue=row.queue, format=row.format, reason=reason, since=to_time(row.since),
        action=getattr(row, "action", ""), operation=None if operation is None else OperationId(operation),
    )  # fmt: skip


def read_alerts(tx: Connection, ids: Sequence[int]) -> dict[int, Alert]:
    rows = [row for part in chunks(ids) for row in tx.execute(select(alert).where(alert.c.alert_id.in_(part)))]
    return {row.alert_id: to_alert(row) for row in rows}


@dataclass(frozen=True, slots=True)
class SqlAlerts:
    database: Database
    events: EventWriter

    def troubles(
        self, *, unreadable_since: datetime, unknown_since: datetime, lost_since: datetime, limit: int
    ) -> Troubles:
        def read(tx: Connection) -> Troubles:
            def rows(query: Any, since: datetime | None = None) -> Sequence[Row[Any]]:
                bounds = {"limit": limit} if since is None else {"limit": limit, "since": to_millis(since)}
                return tx.execute(query, bounds).all()

            return Troubles(
                failed=[to_trouble(row, failure_text(row)) for row in rows(FAILED)],
                unreadable=[to_trouble(row, row.reason) for row in rows(UNREADABLE, unreadable_since)],
                unknown=[to_trouble(row, row.reason) for row in rows(UNKNOWN, unknown_since)],
                paused=[to_trouble(row, row.reason) for row in rows(PAUSED)],
                lost_leases=[LostLease(message=text, event=number) for text, number in rows(LOST, lost_since)],
            )

        return self.database.read(read)

    def open_alerts(self) -> Sequence[Alert]:
        query = select(alert).where(IS_OPEN).order_by(a.alert_id)
        return [to_alert(row) for row in self.database.read(lambda tx: tx.execute(query).all())]

    def get(self, id: AlertId) -> Alert:
        return self.database.read(lambda tx: alert_of(tx, id))

    def list(self, *, only_open: bool, limit: int, cursor: str | None) -> Page[Alert]:
        query = select(alert).where(IS_OPEN) if only_open else select(alert)
        return read_page(self.database, query, [a.alert_id], to_alert, limit=limit, cursor=cursor)

    def counts(self) -> Mapping[Severity, int]:
        query = select(a.severity, func.count()).where(IS_OPEN).group_by(a.severity)
        rows = self.database.read(lambda tx: tx.execute(query).all())
        return dict.fromkeys(Severity, 0) | {Severity(row[0]): int(row[1]) for row in rows}

    def change(self, changes: AlertChanges, rules: AlertRules, *, read_at: datetime, now: datetime) -> AlertsChanged:
        done = [self.change_some(part, rules, read_at, now) for part in parts_of(changes)]
        return AlertsChanged(opened=sum(one.opened for one in done), resolved=sum(one.resolved for one in done))

    def change_some(self, part: AlertChanges, rules: AlertRules, read_at: datetime, now: datetime) -> AlertsChanged:
        def write(tx: Connection) -> AlertsChanged:
            writer = AlertWriter(tx=tx, dialect=self.database.dialect, events=self.events, rules=rules, now=now)
            opened = writer.open(part.open, read_at=read_at)
            writer.refresh(part.refresh)
            writer.remind(part.remind)
            return AlertsChanged(opened=opened, resolved=writer.resolve(part.resolve))

        return self.database.write(write)

    def silence(self, id: AlertId, *, until: datetime, now: datetime, event: Event) -> Alert:
        at = to_millis(until)
        waiting = and_(m.alert_id == id, m.end_time.is_(None), m.lease_until.is_(None), m.due < at)

        def write(tx: Connection) -> Alert:
            known = alert_of(tx, id)
            tx.execute(update(alert).where(a.alert_id == id).values(silence_time=at))
            tx.execute(update(alert_message).where(waiting).values(due=at))
            own = replace(event, table=known.cause.table, operation=known.cause.operation)
            self.events.write(tx, [own], to_millis(now))
            return alert_of(tx, id)

        return self.database.write(write)

    def remove_before(self, before: datetime, *, limit: int) -> int:
        is_unsent = exists().where(
            m.alert_id == a.alert_id, m.end_time.is_(None), m.create_time >= to_millis(before - UNSENT)
        )
        old = and_(a.resolve_time < to_millis(before), ~is_unsent)
        ends = and_(m.alert_id.is_(None), m.end_time < to_millis(before))

        def remove(tx: Connection) -> int:
            seen = tx.scalars(select(a.alert_id).where(old).order_by(a.resolve_time).limit(limit)).all()
            tx.execute(delete(alert_message).where(m.alert_id.in_(seen)))
            tx.execute(delete(alert_message).where(ends))
            return tx.execute(delete(alert).where(a.alert_id.in_(seen))).rowcount

        return self.database.write(remove)

    def due_receivers(self, *, now: datetime) -> Sequence[str]:
        return self.database.read(lambda tx: tx.scalars(DUE_RECEIVERS, {"now": to_millis(now)}).all())

    def claim(
        self, receiver: str, *, holder: InstanceId, now: datetime, time_to_live: timedelta, limit: int
    ) -> Sequence[AlertMessage]:
        at, token = to_millis(now), str(uuid4())
        lease = {"holder": holder, "token": token, "until": at + span_to_millis(time_to_live), "now": at}

        def write(tx: Connection) -> Sequence[AlertMessage]:
            seen = tx.scalars(DUE, {"now": at, "receiver": receiver, "limit": limit}).all()
            if not seen:
                return []
            tx.execute(CLAIM, lease | {"ids": seen})
            rows = tx.execute(WON, {"token": token}).all()
            alerts = read_alerts(tx, [row.alert_id for row in rows if row.alert_id is not None])
            return [to_message(row, alerts.get(row.alert_id)) for row in rows]

        return self.database.write(write)

    def finish(self, message: AlertMessage, *, now: datetime) -> bool:
        at = to_millis(now)
        return self.end_lease(message, {"sent_time": at, "end_time": at, "last_error": ""})

    def postpone(self, message: AlertMessage, *, error: str, due: datetime | None, now: datetime) -> bool:
        later = {"due": millis_or_none(due)} if due else {"end_time": to_millis(now)}
        return self.end_lease(message, {"last_error": storable_text(error)} | later)

    def end_lease(self, message: AlertMessage, values: dict[str, Any]) -> bool:
        ours = and_(m.message_id == message.id, m.lease_token == message.token)
        ended = update(alert_message).where(ours).values(NO_LEASE | values)
        return self.database.write(lambda tx: tx.execute(ended).rowcount) == 1

    def release(self, holder: InstanceId) -> int:
        ours = and_(m.lease_holder == holder, m.end_time.is_(None))
        return self.database.write(lambda tx: tx.execute(update(alert_message).where(ours).values(NO_LEASE)).rowcount)


def alert_of(tx: Connection, id: AlertId) -> Alert:
    found = read_alerts(tx, [id])
    if id not in found:
        raise NotFound(f"there is no alert {id}")
    return found[id]


def parts_of(changes: AlertChanges) -> Iterator[AlertChanges]:
    """In batches, so that no transaction is long."""
    for part in chunks(changes.open):
        yield AlertChanges(open=part)
    for pairs in chunks(changes.refresh):
        yield AlertChanges(refresh=pairs)
    for part_of_alerts in chunks(changes.resolve):
        yield AlertChanges(resolve=part_of_alerts)
    for part_of_alerts in chunks(changes.remind):
        yield AlertChanges(remind=part_of_alerts)
