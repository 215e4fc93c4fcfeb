# SPDX-License-Identifier: Apache-2.0
"""Alerts in SQL: what is open, and changes with their messages in one transaction."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, and_, delete, exists, func, select, update

from lakehand.core.ports import AlertsChanged, Page
from lakehand.domain.alerts import Alert, AlertChanges, AlertId, AlertRules, Severity
from lakehand.domain.errors import NotFound
from lakehand.domain.events import Event
from lakehand.store.alert_outbox import AlertOutbox, read_alerts
from lakehand.store.alert_rows import to_alert
from lakehand.store.alert_writer import AlertWriter
from lakehand.store.clock import to_millis
from lakehand.store.events import EventWriter
from lakehand.store.paging import read_page
from lakehand.store.schema import alert, alert_message
from lakehand.store.tables import chunks

a, m = alert.c, alert_message.c
UNSENT = timedelta(days=3)  # messages are sent for so long; then nobody claims them any more
IS_OPEN = a.open_key.is_not(None)


@dataclass(frozen=True, slots=True)
class SqlAlerts(AlertOutbox):
    events: EventWriter

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
