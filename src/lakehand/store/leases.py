# SPDX-License-Identifier: Apache-2.0
"""Leases on operations: compare-and-set with a fresh token, which every later write repeats."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Row, Update, and_, bindparam, exists, select, update
from sqlalchemy.exc import IntegrityError

from lakehand.domain.operations import InstanceId, LeaseToken, Operation, OperationId
from lakehand.store.clock import NOW, span_to_millis, to_millis
from lakehand.store.operation_queries import IS_READY, IS_SERVED, OperationReads
from lakehand.store.operation_rows import to_operation
from lakehand.store.schema import Id, operation, tbl
from lakehand.store.tables import chunks

c = operation.c
ID = bindparam("id", type_=Id)
NEW_LEASE: dict[str, Any] = {
    "lease_holder": bindparam("holder"),
    "lease_token": bindparam("token"),
    "lease_until": bindparam("until"),
    "active_slot": bindparam("slot"),
}
# The whole condition again: rivals saw the same candidate, and the row may have changed since.
CLAIM = (
    update(operation)
    .where(c.operation_id == ID, IS_READY, exists().where(tbl.c.id == c.tbl_id, IS_SERVED))
    .values(NEW_LEASE | {"place": bindparam("place"), "update_time": bindparam("now")})
)
TAKEN = select(c.place).where(c.place.in_(bindparam("slots", expanding=True)))
# A holder that has renewed since it was found late is alive: its lease ends later.
TAKE_OVER = (
    update(operation)
    .where(c.operation_id == ID, c.lease_token == bindparam("old_token"), c.lease_until == bindparam("old_until"))
    .values(NEW_LEASE | {"update_time": bindparam("now")})
)
OURS = and_(
    c.operation_id.in_(bindparam("ids", expanding=True)), c.lease_token.in_(bindparam("tokens", expanding=True))
)
RENEW = update(operation).where(OURS).values(lease_until=bindparam("until"))
RENEWED = select(c.operation_id).where(OURS)
WON = select(operation).where(c.operation_id == ID, c.lease_token == bindparam("token"))
HELD = select(operation).where(c.lease_holder == bindparam("holder")).order_by(c.operation_id)
LATE = select(operation).where(c.lease_until < bindparam("end")).order_by(c.lease_until).limit(bindparam("limit"))


class OperationLeases(OperationReads):
    def claim(
        self, operation: Operation, *, holder: InstanceId, time_to_live: timedelta, now: datetime | None = None,
        dispatch_slots: Collection[str] = (),
    ) -> Operation | None:  # fmt: skip
        return self.take(CLAIM, operation, holder, now, time_to_live, dispatch_slots=dispatch_slots, place=None)

    def take_over(
        self, operation: Operation, *, holder: InstanceId, now: datetime, time_to_live: timedelta
    ) -> Operation | None:
        if operation.lease is None:
            return None
        token, until = operation.lease.token, to_millis(operation.lease.until)
        return self.take(TAKE_OVER, operation, holder, now, time_to_live, old_token=token, old_until=until)

    def take(
        self, statement: Update, operation: Operation, holder: InstanceId, now: datetime | None,
        time_to_live: timedelta, *, dispatch_slots: Collection[str] = (), **values: Any,
    ) -> Operation | None:  # fmt: skip
        token = str(uuid4())
        values |= {"id": operation.id, "holder": holder, "token": token, "slot": operation.slot}

        def write(tx: Connection) -> Row[Any] | None:
            values["now"] = tx.execute(NOW).scalar_one() if now is None else to_millis(now)
            values["until"] = values["now"] + span_to_millis(time_to_live)
            if dispatch_slots:
                taken = set(tx.scalars(TAKEN, {"slots": sorted(dispatch_slots)}))
                if not (free := sorted(set(dispatch_slots) - taken)):
                    return None
                values["place"] = free[0]
            tx.execute(statement, values)
            return tx.execute(WON, {"id": operation.id, "token": token}).one_or_none()

        try:
            row = self.database.write(write)
        except IntegrityError:
            return None  # another operation has the slot of this table, or the dispatch slot
        return None if row is None else to_operation(row)

    def renew(
        self, leases: Mapping[OperationId, LeaseToken], *, now: datetime, time_to_live: timedelta
    ) -> Collection[OperationId]:
        until = to_millis(now) + span_to_millis(time_to_live)

        def write(tx: Connection) -> Collection[OperationId]:
            renewed: set[OperationId] = set()
            for part in chunks(sorted(leases)):
                ours = {"ids": part, "tokens": [leases[one] for one in part]}
                tx.execute(RENEW, ours | {"until": until})
                renewed.update(tx.scalars(RENEWED, ours))
            return renewed

        return self.database.write(write) if leases else set()

    def held(self, holder: InstanceId) -> Sequence[Operation]:
        return [to_operation(row) for row in self.database.read(lambda tx: tx.execute(HELD, {"holder": holder}).all())]

    def late(self, *, now: datetime, margin: timedelta, limit: int) -> Sequence[Operation]:
        bounds = {"end": to_millis(now - margin), "limit": limit}
        return [to_operation(row) for row in self.database.read(lambda tx: tx.execute(LATE, bounds).all())]
