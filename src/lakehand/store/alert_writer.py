# SPDX-License-Identifier: Apache-2.0
"""Opens, refreshes and resolves alerts within one transaction, with the messages and events that belong to it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, and_, func, insert, or_, select, update

from lakehand.domain.alerts import Alert, AlertRules, Cause, MessageKind, Severity
from lakehand.domain.events import Event
from lakehand.store.alert_rows import key_of, new_row, summary_key, texts_of, to_cause
from lakehand.store.clock import millis_or_none, to_millis
from lakehand.store.dialects import insert_missing, upsert
from lakehand.store.events import EventWriter
from lakehand.store.schema import alert, alert_message
from lakehand.store.tables import chunks

a, m = alert.c, alert_message.c
MINUTE = timedelta(minutes=1)
SUMMARY_DELAY = timedelta(seconds=15)  # after the minute that it is about
Row = dict[str, Any]


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
        own: list[Row] = []
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

    def follow_ups(self, causes: Mapping[int, Cause], kind: MessageKind) -> Iterator[Row]:
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

    def message(self, id: int, cause: Cause, receiver: str, kind: MessageKind) -> Row:
        return self.row(id, receiver, kind, to_millis(self.rules.due(cause.severity, self.now)))

    def row(self, id: int | None, receiver: str, kind: MessageKind, due: int) -> Row:
        return {
            "alert_id": id, "receiver": receiver, "kind": kind.value, "due": due, "create_time": self.at,
            "attempts": 0, "more": 0, "last_error": "",
        }  # fmt: skip

    def insert(self, rows: Iterable[Row]) -> None:
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
