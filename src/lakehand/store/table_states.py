# SPDX-License-Identifier: Apache-2.0
"""The state of each table as an expression of SQL, and the search by a part of its name or location."""

from sqlalchemy import ColumnElement, and_, case, exists, func, literal, or_, select, true

from lakehand.domain.fleet import ATTENTION, TableState
from lakehand.domain.operations import Status
from lakehand.store.documents import storable_text
from lakehand.store.operation_queries import LIVE_WORDS
from lakehand.store.schema import operation, schedule, tbl

c = tbl.c

# Sets instead of a subquery per table: each is read once, by an index, and is small.
HAS_FAILED = c.id.in_(select(schedule.c.tbl_id).where(schedule.c.failed_operation > 0))
IS_WORKING = c.id.in_(select(operation.c.tbl_id).where(operation.c.status.in_(LIVE_WORDS)))
NEEDS_WORK = c.id.in_(select(operation.c.tbl_id).where(operation.c.status == Status.PENDING.value))
WAS_EVALUATED = exists().where(schedule.c.tbl_id == c.id, schedule.c.last_look.is_not(None))

CONDITIONS: dict[TableState, ColumnElement[bool]] = {
    TableState.PAUSED: c.paused.is_(True),
    TableState.UNREADABLE: c.problem.is_not(None),
    TableState.FAILED: HAS_FAILED,
    TableState.WORKING: IS_WORKING,
    TableState.NEEDS_WORK: NEEDS_WORK,
    TableState.NEW: and_(c.health_time.is_(None), ~WAS_EVALUATED),
}
# The position in ATTENTION: what a person wants to see first has the smallest number.
STATE: ColumnElement[int] = case(
    *((CONDITIONS[state], literal(ATTENTION.index(state))) for state in TableState if state in CONDITIONS),
    else_=literal(ATTENTION.index(TableState.HEALTHY)),
)


def has_state(state: TableState) -> ColumnElement[bool]:
    """Its condition, and none of those that count before it: the database begins with the smallest set."""
    order = list(TableState)
    before = [~CONDITIONS[one] for one in order[: order.index(state)]]
    return and_(CONDITIONS.get(state, true()), *before)


def matches(search: str) -> ColumnElement[bool]:
    part = storable_text(search).lower()
    name = func.lower(c.db_name + "." + c.table_name)
    return or_(name.contains(part, autoescape=True), func.lower(c.base_path).contains(part, autoescape=True))
