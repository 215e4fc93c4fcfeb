# SPDX-License-Identifier: Apache-2.0
"""The outbox: messages of alerts, claimed by compare-and-set with a lease, so that one instance sends each."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, and_, bindparam, exists, or_, select, update

from lakehand.domain.alerts import Alert, AlertMessage
from lakehand.domain.operations import InstanceId
from lakehand.store.alert_rows import to_alert, to_message
from lakehand.store.alert_troubles import AlertTroubles
from lakehand.store.clock import millis_or_none, span_to_millis, to_millis
from lakehand.store.documents import storable_text
from lakehand.store.schema import Millis, alert, alert_message
from lakehand.store.tables import chunks

m = alert_message.c
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


class AlertOutbox(AlertTroubles):
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


def read_alerts(tx: Connection, ids: Sequence[int]) -> dict[int, Alert]:
    rows = [row for part in chunks(ids) for row in tx.execute(select(alert).where(alert.c.alert_id.in_(part)))]
    return {row.alert_id: to_alert(row) for row in rows}
