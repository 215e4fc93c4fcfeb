# SPDX-License-Identifier: Apache-2.0
"""What is asked of the table of operations: conditions and statements."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, case, exists, func, or_, select, tuple_, update

from lakehand.core.ports import OperationFilter
from lakehand.domain.operations import FOLLOWED, LIVE, UNFINISHED, Status
from lakehand.domain.rules import Closed
from lakehand.store.compiled_statements import ListStatement
from lakehand.store.schema import Id, Millis, operation, tbl
from lakehand.store.table_rows import key_of

MOST_WAITING = 1000  # pending operations of one table that are read at once
LIVE_WORDS = sorted(status.value for status in LIVE)
UNFINISHED_WORDS = sorted(status.value for status in UNFINISHED)

c = operation.c
NOW = bindparam("now", type_=Millis)
IS_SERVED = and_(tbl.c.paused.is_(False), tbl.c.removed.is_(False))
IS_WANTED = and_(c.status == Status.PENDING.value, c.cancel_requested.is_(False), c.is_deleted.is_(False))
# Coalesced, since MariaDB would read by the index on lease_until, of which nearly all that wait are a part.
IS_READY = and_(IS_WANTED, c.not_before <= NOW, func.coalesce(c.lease_until, 0) <= NOW)
NOT_SERVED = select(tbl.c.id).where(or_(tbl.c.paused.is_(True), tbl.c.removed.is_(True)))
DUE_SINCE = case((c.not_before > c.schedule_time, c.not_before), else_=c.schedule_time)
# As the rules rank them (``rank`` in domain/rules.py).
RANK = [
    (c.priority + (NOW - DUE_SINCE) // bindparam("age_step", type_=Millis)).desc(),
    c.urgent.desc(),
    DUE_SINCE,
    c.operation_id,
]


def candidate_query(closed: Closed, *, leave_owners_out: bool) -> Any:
    """The best that nothing closed holds back. It reads each pending row once, and joins only those that it returns."""
    ready = select(c.operation_id).where(IS_READY, c.tbl_id.not_in(NOT_SERVED))
    best_q = ready.where(*open_only(closed, leave_owners_out=leave_owners_out)).order_by(*RANK)
    best = best_q.limit(bindparam("limit")).subquery()
    full = select(operation, tbl.c.format.label("table_format")).join(best, best.c.operation_id == c.operation_id)
    return full.join(tbl, tbl.c.id == c.tbl_id).order_by(*RANK)


def open_only(closed: Closed, *, leave_owners_out: bool) -> Iterator[ColumnElement[bool]]:
    if closed.queues:
        yield c.queue.not_in(sorted(closed.queues))
    if closed.owners and leave_owners_out:
        yield c.owner.not_in(sorted(closed.owners))
    if closed.engines:
        may_choose = and_(c.job == "", c.wanted_engine.is_(None))
        yield or_(may_choose, c.engine.not_in(sorted(closed.engines)))
    for name, action in sorted(closed.pairs):
        yield or_(c.action != action, c.tbl_id.not_in(select(tbl.c.id).where(tbl.c.format == name)))
    if closed.slots:
        slots = [(int(table), kind) for table, _, kind in (slot.partition(":") for slot in sorted(closed.slots))]
        busy_tables = sorted({table for table, _ in slots})
        yield or_(c.tbl_id.not_in(busy_tables), tuple_(c.tbl_id, c.conflict_class).not_in(slots))


BUSY = (
    select(c.tbl_id, c.conflict_class, c.queue, c.owner, c.action, c.engine, c.lease_holder, tbl.c.format)
    .join(tbl, tbl.c.id == c.tbl_id)
    .where(c.status.in_(LIVE_WORDS))
)
DEPTH = (
    select(c.queue, func.count(), func.min(case((c.not_before <= NOW, DUE_SINCE))))
    .join(tbl, tbl.c.id == c.tbl_id)
    .where(IS_WANTED, IS_SERVED)
    .group_by(c.queue)
)
ONE = select(operation).where(c.operation_id == bindparam("id", type_=Id))
BY_IDS = ListStatement(lambda ids: select(operation).where(c.operation_id.in_(ids)), [Id])
AT = select(operation).where(c.tbl_id == bindparam("table", type_=Id), c.instant == bindparam("instant"))
NEWEST = select(operation).where(c.tbl_id == bindparam("table", type_=Id)).order_by(c.operation_id.desc())
LIVE_OF = NEWEST.where(c.status.in_(LIVE_WORDS))
WAITING_OF = (
    select(operation)
    .where(c.tbl_id == bindparam("table", type_=Id), c.status == Status.PENDING.value)
    .order_by(c.operation_id)
    .limit(bindparam("waiting"))
)
FOLLOWED_OF = (
    select(*(tbl.c[name] for name in FOLLOWED))
    .where(tbl.c.id == bindparam("table", type_=Id))
    .with_for_update(read=True)
)
UNFINISHED_COUNTS = (
    select(c.action, func.count())
    .where(c.tbl_id == bindparam("table", type_=Id), c.status.in_(UNFINISHED_WORDS))
    .group_by(c.action)
)
FINISHED_OF = NEWEST.where(c.status.not_in(UNFINISHED_WORDS)).limit(bindparam("recent"))
ENDS_OF = FINISHED_OF.with_only_columns(c.operation_id, c.action, c.status, c.finish_time, c.result)


def conditions(filter: OperationFilter) -> Sequence[ColumnElement[bool]]:
    wanted = {"tbl_id": filter.table, "queue": filter.queue, "owner": filter.owner}
    same = [c[name] == value for name, value in wanted.items() if value is not None]
    if filter.action is not None:
        same.append(c.action == str(filter.action))
    if filter.statuses:
        same.append(c.status.in_(sorted(status.value for status in filter.statuses)))
    if filter.location is not None:
        there = select(tbl.c.id).where(tbl.c.location_key == key_of(filter.location))
        same.append(c.tbl_id == there.scalar_subquery())
    return same


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
