# SPDX-License-Identifier: Apache-2.0
"""Operations in SQL: read, stored once per (table, instant), claimed and moved by the lease holder, ended, removed.

A lease is a compare-and-set with a fresh token, which every later write repeats.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Row, Update, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from lakehand.core.ports import OperationEnd, OperationFilter, Page
from lakehand.domain.errors import Conflict, IllegalStep, LeaseLost, NotFound
from lakehand.domain.events import Event
from lakehand.domain.health import HealthPoint
from lakehand.domain.operations import (
    REOPENABLE,
    Attempt,
    AttemptEnd,
    ExternalId,
    InstanceId,
    LeaseToken,
    NewOperation,
    Operation,
    OperationChanges,
    OperationId,
    Status,
)
from lakehand.domain.processes import Instant
from lakehand.domain.repeats import differences, repeated
from lakehand.domain.rules import Busy, Closed, DispatchQueue
from lakehand.domain.tables import TableId
from lakehand.store.clock import NOW, span_to_millis, to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.documents import storable_text
from lakehand.store.events import EventWriter
from lakehand.store.fleet import OperationHours, ended_row, retried_row, waited_row
from lakehand.store.health import HealthWriter
from lakehand.store.operation_queries import (
    AT,
    BUSY,
    BY_IDS,
    CLAIM,
    DEPTH,
    ENDS_OF,
    FINISHED_OF,
    FOLLOWED_OF,
    HELD,
    LATE,
    LIVE_OF,
    MOST_WAITING,
    ONE,
    RENEW,
    RENEWED,
    TAKE_OVER,
    TAKEN,
    UNFINISHED_COUNTS,
    UNFINISHED_WORDS,
    WAITING_OF,
    WON,
    candidate_query,
    conditions,
)
from lakehand.store.operation_rows import (
    RELEASED,
    about,
    attempt_row,
    end_row,
    external_row,
    new_row,
    saved_row,
    to_attempt,
    to_busy,
    to_candidate,
    to_end,
    to_operation,
)
from lakehand.store.paging import read_page
from lakehand.store.schedules import WAKE, forget_failures, note_failure
from lakehand.store.schedules import wake as wake_tables
from lakehand.store.schema import attempt as attempts
from lakehand.store.schema import event as events
from lakehand.store.schema import operation as operations
from lakehand.store.schema import tbl as tables
from lakehand.store.tables import chunks
from lakehand.store.waiting_operations import change_repeated, own_values

c = operations.c
FINISHED_WORDS = sorted({status.value for status in Status} - set(UNFINISHED_WORDS))
IS_FINISHED = c.status.in_(FINISHED_WORDS)
INSERT = insert(operations)
CANCELED = RELEASED | {"status": Status.CANCELED.value, "cancel_requested": True}


class SqlOperations:
    def __init__(self, database: Database, events: EventWriter, health: HealthWriter) -> None:
        self.database = database
        self.events = events
        self.health = health
        self.hours = OperationHours(database.dialect)

    def get(self, id: OperationId) -> Operation:
        return self.database.read(lambda tx: to_operation(row_of(tx, id)))

    def find(self, table: TableId, instant: Instant) -> Operation | None:
        row = self.database.read(lambda tx: tx.execute(AT, {"table": table, "instant": instant}).one_or_none())
        return None if row is None else to_operation(row)

    def by_ids(self, ids: Collection[OperationId]) -> Sequence[Operation]:
        rows = self.database.read(lambda tx: BY_IDS.rows(tx, sorted(ids))) if ids else []
        return list({row.operation_id: to_operation(row) for row in rows}.values())

    def of_table(self, table: TableId, *, recent: int, waiting: int = MOST_WAITING) -> Sequence[Operation]:
        def read(tx: Connection) -> Sequence[Row[Any]]:
            live = tx.execute(LIVE_OF, {"table": table}).all()
            pending = tx.execute(WAITING_OF, {"table": table, "waiting": waiting}).all()
            finished = tx.execute(FINISHED_OF, {"table": table, "recent": recent}).all() if recent else []
            return [*live, *pending, *finished]

        # One may have moved on between two of these reads.
        found = {row.operation_id: to_operation(row) for row in self.database.read(read)}
        return [found[key] for key in sorted(found, reverse=True)]

    def ends(self, table: TableId, *, limit: int) -> Sequence[OperationEnd]:
        rows = self.database.read(lambda tx: tx.execute(ENDS_OF, {"table": table, "recent": limit}).all())
        return [to_end(row) for row in rows if row.finish_time is not None]

    def unfinished(self, table: TableId) -> Mapping[str, int]:
        rows = self.database.read(lambda tx: tx.execute(UNFINISHED_COUNTS, {"table": table}).all())
        return {str(row[0]): int(row[1]) for row in rows}

    def dispatch_queue(
        self, *, now: datetime, limit: int, age_step: timedelta, close: Callable[[Sequence[Busy]], Closed]
    ) -> DispatchQueue:
        values = {"now": to_millis(now), "limit": limit, "age_step": span_to_millis(age_step)}

        def read(tx: Connection) -> DispatchQueue:
            busy = [to_busy(row) for row in tx.execute(BUSY)]
            closed = close(busy)
            if closed.is_full:
                return DispatchQueue(candidates=[], busy=busy)
            found = tx.execute(candidate_query(closed, leave_owners_out=True), values).all()
            has_more_owners = len(found) == limit
            if not found and closed.owners:
                found = tx.execute(candidate_query(closed, leave_owners_out=False), values).all()
            return DispatchQueue(candidates=[*map(to_candidate, found)], busy=busy, has_more_owners=has_more_owners)

        return self.database.read(read)

    def attempts(self, id: OperationId) -> Sequence[Attempt]:
        """In the order of their starts."""
        query = select(attempts).where(attempts.c.operation_id == id).order_by(attempts.c.attempt_id)
        return [to_attempt(row) for row in self.database.read(lambda tx: tx.execute(query).all())]

    def queue_depth(self, *, now: datetime) -> Mapping[str, tuple[int, datetime | None]]:
        rows = self.database.read(lambda tx: tx.execute(DEPTH, {"now": to_millis(now)}).all())
        return {queue: (count, to_time(oldest)) for queue, count, oldest in rows}

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
                raise Conflict(f"operation {new.instant} of table {new.table} was removed just now") from error
            return rival, False

    def insert(self, tx: Connection, new: NewOperation, now: int, event: Event | None) -> Operation:
        # Locked, so that no change of the table is missed: what waits follows it.
        table = tx.execute(FOLLOWED_OF, {"table": new.table}).one_or_none()
        if table is None:
            raise NotFound(f"there is no table {new.table}")
        key = tx.execute(INSERT, new_row(new, table, now)).inserted_primary_key
        assert key is not None
        self.note(tx, event, OperationId(key[0]), new.table, now)
        return to_operation(row_of(tx, OperationId(key[0])))

    def save(
        self, operation: Operation, *, now: datetime, attempt: Attempt | None = None, ended: AttemptEnd | None = None,
        event: Event | None = None, release: bool = False, wake: bool = False, health: HealthPoint | None = None,
        pause: str | None = None, external: ExternalId | None = None,
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
            changes = (external_row(external) if external else {}) | (end_row(ended, ended.at) if ended else {})
            handle = ended.handle if ended else operation.handle
            if changes and handle:
                same = and_(attempts.c.operation_id == operation.id, attempts.c.handle == handle)
                tx.execute(update(attempts).where(same).values(changes))
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
                return self.remove_ended(tx, row, event, at) if delete else row
            flagged = {"cancel_requested": True, "update_time": at} | ({"is_deleted": True} if delete else {})
            tx.execute(update(operations).where(c.operation_id == id).values(flagged))
            self.note(tx, event, id, row.tbl_id, at)
            is_free = row.lease_until is None or row.lease_until <= at
            row = row_of(tx, id)
            return self.end(tx, row, at, event.message) if is_free and is_unwanted(row) else row

        return to_operation(self.database.write(write))

    def remove_ended(self, tx: Connection, row: Row[Any], event: Event, at: int) -> Row[Any]:
        forget_failures(tx, [row.operation_id])
        if row.is_deleted:
            return row
        removed = {"is_deleted": True, "update_time": at}
        tx.execute(update(operations).where(c.operation_id == row.operation_id, IS_FINISHED).values(removed))
        self.note(tx, event, row.operation_id, row.tbl_id, at)
        return row_of(tx, row.operation_id)

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
            self.hours.count(tx, (waited_row(row, at) for row in rows))
            return seen

        return self.database.write(write)

    def end(self, tx: Connection, row: Row[Any], at: int, reason: str = "canceled on request") -> Row[Any]:
        values = CANCELED | {"reason": reason, "update_time": at, "finish_time": at}
        tx.execute(update(operations).where(c.operation_id == row.operation_id).values(values))
        self.hours.count(tx, [waited_row(row, at)])
        return row_of(tx, row.operation_id)

    def repeat(self, known: Operation, new: NewOperation, *, now: datetime, event: Event) -> Operation:
        at = to_millis(now)

        def write(tx: Connection) -> Row[Any]:
            stored = to_operation(row_of(tx, known.id, lock=True))
            if names := change_repeated(tx, stored, new, at):
                changed = replace(event, message=f"{event.message}: {', '.join(names)}")
                self.note(tx, changed, stored.id, stored.table, at)
            return row_of(tx, known.id)

        if not differences(known, repeated(known, new)):
            return known
        return to_operation(self.database.write(write))

    def change(self, id: OperationId, changes: OperationChanges, *, now: datetime, event: Event) -> Operation:
        at = to_millis(now)
        is_waiting = and_(c.operation_id == id, c.status == Status.PENDING.value)

        def write(tx: Connection) -> Row[Any]:
            values = own_values(changes) | {"update_time": at}
            if tx.execute(update(operations).where(is_waiting).values(values)).rowcount == 0:
                raise Conflict(f"operation {id} is {row_of(tx, id).status}: only one that waits can be moved")
            row = row_of(tx, id)
            self.note(tx, event, id, row.tbl_id, at)
            return row

        return to_operation(self.database.write(write))

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

    def list(self, filter: OperationFilter, *, limit: int, cursor: str | None) -> Page[Operation]:
        query = select(operations).where(*conditions(filter))
        return read_page(self.database, query, [c.operation_id], to_operation, limit=limit, cursor=cursor)


def row_of(tx: Connection, id: OperationId, *, lock: bool = False) -> Row[Any]:
    row = tx.execute(ONE.with_for_update() if lock else ONE, {"id": id}).one_or_none()
    if row is None:
        raise NotFound(f"there is no operation {id}")
    return row


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
