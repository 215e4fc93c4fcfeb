# SPDX-License-Identifier: Apache-2.0
"""What changes operations that wait: a change of their table, a repeat of their request, or a person."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, or_, select, update

from lakehand.domain.actions import Action
from lakehand.domain.errors import Conflict
from lakehand.domain.events import Event
from lakehand.domain.operations import (
    FOLLOWED,
    NewOperation,
    Operation,
    OperationChanges,
    OperationId,
    Status,
    taken_off,
)
from lakehand.domain.repeats import differences, repeated
from lakehand.domain.tables import TableChanges, TableId
from lakehand.store.documents import to_document
from lakehand.store.events import EventWriter
from lakehand.store.operation_rows import RELEASED
from lakehand.store.schema import operation

if TYPE_CHECKING:
    from lakehand.store.fleet import OperationHours  # which imports the tables, whose changes come here

c = operation.c
COUNTED = (c.operation_id, c.action, c.run_times, c.schedule_time)
IS_WAITING = c.status == Status.PENDING.value


@dataclass(frozen=True, slots=True)
class WaitingOperations:
    events: EventWriter
    hours: "OperationHours"

    def drop(self, tx: Connection, table: TableId, actions: Collection[Action], at: int) -> None:
        """End those of actions that the table has no more. What is leased is dropped at its admission."""
        waits = and_(c.tbl_id == table, IS_WAITING, c.action.in_(sorted(map(str, actions))), is_free(at))
        rows = tx.execute(select(*COUNTED).where(waits).order_by(c.operation_id).with_for_update()).all()
        if not rows:
            return
        for action in sorted(actions):
            ended = {"status": Status.DROPPED.value, "reason": taken_off(action), "update_time": at, "finish_time": at}
            tx.execute(update(operation).where(waits, c.action == str(action)).values(RELEASED | ended))
        self.events.write(tx, [dropped_event(table, row) for row in rows], at)
        self.hours.count_waited(tx, rows, at, Status.DROPPED)


def follow_table(tx: Connection, table: TableId, changes: TableChanges, at: int) -> None:
    """What waits gets the table's new priority, queue and owner, unless its request set them."""
    given = {name: getattr(changes, name) for name in FOLLOWED if getattr(changes, name) is not None}
    if not given:
        return
    follows = {name: c[f"has_own_{name}"].is_not(True) for name in given}
    differs = or_(*(and_(follows[name], c[name] != value) for name, value in given.items()))
    values: dict[str, Any] = {name: case((follows[name], value), else_=c[name]) for name, value in given.items()}
    change = update(operation).where(c.tbl_id == table, IS_WAITING, differs)
    tx.execute(change.values(values | {"update_time": at}))


def dropped_event(table: TableId, row: Row[Any]) -> Event:
    why = taken_off(Action(row.action))
    return Event(kind="operation.dropped", message=why, table=table, operation=OperationId(row.operation_id))


def is_free(at: int) -> ColumnElement[bool]:
    return or_(c.lease_until.is_(None), c.lease_until <= at)


def change_repeated(tx: Connection, stored: Operation, new: NewOperation, at: int) -> Sequence[str]:
    """What a repeated request has changed in the operation, by name. Raises Conflict if it does not wait any more."""
    wanted = repeated(stored, new)
    names = differences(stored, wanted)
    if not names:
        return names
    values: dict[str, Any] = {"engine": wanted.process.engine, "parameters": to_document(wanted.process.parameters)}
    values |= {"wanted_engine": wanted.wanted_engine, "retry_on_error": wanted.retry_on_error, "update_time": at}
    own = own_values(OperationChanges(priority=new.priority, queue=new.queue, owner=new.owner))
    change = update(operation).where(c.operation_id == stored.id, IS_WAITING, is_free(at)).values(values | own)
    if tx.execute(change).rowcount == 0:
        state = "being given to its engine" if stored.status is Status.PENDING else stored.status
        raise Conflict(
            f"operation {stored.id} at {stored.instant} is {state}: its {', '.join(names)} cannot be changed any more"
        )
    return names


def own_values(changes: OperationChanges) -> dict[str, Any]:
    """What is given, as the operation's own from now on."""
    given = {name: getattr(changes, name) for name in FOLLOWED if getattr(changes, name) is not None}
    return given | {f"has_own_{name}": True for name in given}
