# SPDX-License-Identifier: Apache-2.0
"""Writes operations: stored once per (table, instant), moved by the lease holder, ended, reopened, removed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from lakehand.domain.errors import Conflict, IllegalStep, LeaseLost, NotFound
from lakehand.domain.events import Event
from lakehand.domain.health import HealthPoint
from lakehand.domain.operations import REOPENABLE, Attempt, AttemptEnd, NewOperation, Operation, OperationId, Status
from lakehand.domain.tables import TableId
from lakehand.store.clock import to_millis
from lakehand.store.database import Database
from lakehand.store.documents import storable_text
from lakehand.store.events import EventWriter
from lakehand.store.health import HealthWriter
from lakehand.store.leases import OperationLeases
from lakehand.store.operation_hours import OperationHours, canceled_row, ended_row, retried_row
from lakehand.store.operation_queries import UNFINISHED_WORDS, row_of
from lakehand.store.operation_rows import RELEASED, about, attempt_row, end_row, new_row, saved_row, to_operation
from lakehand.store.schedules import WAKE, forget_failures, note_failure
from lakehand.store.schedules import wake as wake_tables
from lakehand.store.schema import attempt as attempts
from lakehand.store.schema import event as events
from lakehand.store.schema import operation as operations
from lakehand.store.schema import tbl as tables

c = operations.c
FINISHED_WORDS = sorted({status.value for status in Status} - set(UNFINISHED_WORDS))
IS_FINISHED = c.status.in_(FINISHED_WORDS)
INSERT = insert(operations)
CANCELED = RELEASED | {"status": Status.CANCELED.value, "cancel_requested": True}


class SqlOperations(OperationLeases):
    def __init__(self, database: Database, events: EventWriter, health: HealthWriter) -> None:
        super().__init__(database, events, health)
        self.hours = OperationHours(database.dialect)

    def add(self, new: NewOperation, *, now: datetime, event: Event | None = None) -> tuple[Operation, bool]:
        is_a_plan = new.process.instant is not None  # it may be stored already; an instant of ours is new
        known = self.find(new.table, new.instant) if is_a_plan else None
        if known is not None:
            return known, False
        try:
            return self.database.write(lambda tx: self.insert(tx, new, to_millis(now), event)), True
        except IntegrityError as error:
            rival = self.find(new.table, new.instant)
            if rival is None:
                raise NotFound(f"there is no table {new.table}") from error
            return rival, False

    def insert(self, tx: Connection, new: NewOperation, now: int, event: Event | None) -> Operation:
        key = tx.execute(INSERT, new_row(new, now)).inserted_primary_key
        assert key is not None
        self.note(tx, event, OperationId(key[0]), new.table, now)
        return to_operation(row_of(tx, OperationId(key[0])))

    def save(
        self, operation: Operation, *, now: datetime, attempt: Attempt | None = None, ended: AttemptEnd | None = None,
        event: Event | None = None, release: bool = False, wake: bool = False, health: HealthPoint | None = None,
        pause: str | None = None,
    ) -> Operation:  # fmt: skip
        if operation.lease is None:
            raise LeaseLost(f"operation {operation.id} is written without a lease")
        release = release or operation.status.is_final
        if release and operation.status.is_live:
            raise IllegalStep(f"operation {operation.id} is {operation.status}: it keeps its lease until that ends")
        slot = RELEASED if release else {"active_slot": operation.slot}
        at = to_millis(now)

        def write(tx: Connection) -> Row[Any]:
            # Tables before schedules, as probes lock them, so that the two do not deadlock.
            self.health.write(tx, {operation.table: health} if health else {})
            pause_table(tx, operation.table, pause, at)
            self.overwrite(tx, operation, saved_row(operation, at) | slot)
            put_attempt(tx, attempt)
            if ended is not None:
                same = and_(attempts.c.operation_id == operation.id, attempts.c.handle == ended.handle)
                tx.execute(update(attempts).where(same).values(end_row(ended, ended.at)))
            if wake:
                wake_tables(tx, WAKE, [operation.table], at)
            note_failure(tx, operation)
            self.note(tx, event, operation.id, operation.table, at)
            row = row_of(tx, operation.id)
            if release and is_unwanted(row):
                return self.end(tx, row, at)
            self.hours.count(tx, count_rows(operation, at, has_run=ended is not None))
            return row

        try:
            return to_operation(self.database.write(write))
        except IntegrityError as error:
            raise Conflict(f"another operation holds the slot {operation.slot}") from error

    def overwrite(self, tx: Connection, operation: Operation, values: dict[str, Any]) -> None:
        assert operation.lease is not None
        fenced = and_(c.operation_id == operation.id, c.lease_token == operation.lease.token)
        if tx.execute(update(operations).where(fenced).values(values)).rowcount == 0:
            raise LeaseLost(f"operation {operation.id} is no longer held by {operation.lease.holder}")

    def request_cancel(self, id: OperationId, *, now: datetime, event: Event, delete: bool = False) -> Operation:
        at = to_millis(now)

        def write(tx: Connection) -> Row[Any]:
            row = row_of(tx, id, lock=True)
            if row.status in FINISHED_WORDS:
                if delete:
                    forget_failures(tx, [id])
                return row
            flagged = {"cancel_requested": True, "update_time": at} | ({"is_deleted": True} if delete else {})
            tx.execute(update(operations).where(c.operation_id == id).values(flagged))
            self.note(tx, event, id, row.tbl_id, at)
            is_free = row.lease_until is None or row.lease_until <= at
            row = row_of(tx, id)
            return self.end(tx, row, at, event.message) if is_free and is_unwanted(row) else row

        return to_operation(self.database.write(write))

    def end_waiting(self, table: TableId, *, now: datetime, reason: str, limit: int) -> Sequence[OperationId]:
        at = to_millis(now)
        is_free = or_(c.lease_until.is_(None), c.lease_until <= at)
        waits = and_(c.tbl_id == table, c.status == Status.PENDING.value, is_free)
        ended = CANCELED | {"is_deleted": True, "reason": storable_text(reason), "update_time": at, "finish_time": at}
        # Locked: of two services, the second sees none of the rows that the first has ended.
        counted = (c.operation_id, c.action, c.run_times, c.schedule_time)
        oldest = select(*counted).where(waits).order_by(c.operation_id).limit(limit).with_for_update()

        def write(tx: Connection) -> Sequence[OperationId]:
            rows = tx.execute(oldest).all()
            seen = [OperationId(row.operation_id) for row in rows]
            if seen:
                tx.execute(update(operations).where(c.operation_id.in_(seen), waits).values(ended))
            self.hours.count(tx, (canceled_row(row, at) for row in rows))
            return seen

        return self.database.write(write)

    def end(self, tx: Connection, row: Row[Any], at: int, reason: str = "canceled on request") -> Row[Any]:
        values = CANCELED | {"reason": reason, "update_time": at, "finish_time": at}
        tx.execute(update(operations).where(c.operation_id == row.operation_id).values(values))
        self.hours.count(tx, [canceled_row(row, at)])
        return row_of(tx, row.operation_id)

    def reopen(self, operation: Operation, *, now: datetime, event: Event) -> Operation:
        at = to_millis(now)
        values = saved_row(operation, at) | {"cancel_requested": False, "is_deleted": False}
        can_reopen = c.status.in_(sorted(status.value for status in REOPENABLE))

        def write(tx: Connection) -> Row[Any]:
            change = update(operations).where(c.operation_id == operation.id, can_reopen).values(values)
            if tx.execute(change).rowcount == 0:
                raise Conflict(f"operation {operation.id} is {row_of(tx, operation.id).status} by now")
            forget_failures(tx, [operation.id])
            self.note(tx, event, operation.id, operation.table, at)
            return row_of(tx, operation.id)

        return to_operation(self.database.write(write))

    def remove_finished(self, *, before: datetime, limit: int) -> int:
        is_old = and_(IS_FINISHED, c.finish_time < to_millis(before))
        oldest = select(c.operation_id).where(is_old).order_by(c.finish_time).limit(limit)

        def write(tx: Connection) -> int:
            seen = set(tx.scalars(oldest))
            if not seen:
                return 0
            tx.execute(delete(operations).where(c.operation_id.in_(seen), is_old))
            gone = seen - set(tx.scalars(select(c.operation_id).where(c.operation_id.in_(seen))))
            tx.execute(delete(events).where(events.c.operation_id.in_(gone)))
            forget_failures(tx, gone)
            return len(gone)

        return self.database.write(write)

    def note(self, tx: Connection, event: Event | None, id: OperationId, table: TableId, at: int) -> None:
        if event is not None:
            self.events.write(tx, [about(event, id, table)], at)


def count_rows(operation: Operation, at: int, *, has_run: bool) -> list[dict[str, Any]]:
    """What to count for this step: an end, or an attempt that is followed by another one; else nothing."""
    if operation.status.is_final:
        return [ended_row(operation, at=at, has_run=has_run)]
    return [retried_row(operation, at=at)] if has_run and operation.status is Status.PENDING else []


def pause_table(tx: Connection, table: TableId, reason: str | None, at: int) -> None:
    if reason is not None:
        values = {"paused": True, "pause_reason": storable_text(reason), "update_time": at}
        tx.execute(update(tables).where(tables.c.id == table).values(values))


def is_unwanted(row: Row[Any]) -> bool:
    return bool(row.status == Status.PENDING.value and row.cancel_requested)


def put_attempt(tx: Connection, attempt: Attempt | None) -> None:
    """One row per handle: a reopened operation counts its attempts anew, and its history stays."""
    if attempt is None:
        return
    a = attempts.c
    same = and_(a.operation_id == attempt.operation, a.handle == attempt.handle)
    values = attempt_row(attempt)
    if tx.execute(update(attempts).where(same).values(values)).rowcount == 0:
        tx.execute(insert(attempts).values(operation_id=attempt.operation, handle=attempt.handle, **values))
