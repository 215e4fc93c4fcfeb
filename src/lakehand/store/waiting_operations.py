# SPDX-License-Identifier: Apache-2.0
"""What a change of a table means for its waiting operations, in the transaction that changes the table."""

from typing import Any

from sqlalchemy import Connection, and_, case, or_, update

from lakehand.domain.operations import OperationChanges, Status
from lakehand.domain.tables import TableChanges, TableId
from lakehand.store.operation_rows import FOLLOWED
from lakehand.store.schema import operation

c = operation.c
IS_WAITING = c.status == Status.PENDING.value


def follow_table(tx: Connection, table: TableId, changes: TableChanges, at: int) -> None:
    """Waiting operations get the table's new priority, queue and owner, unless their requests set them."""
    given = {name: getattr(changes, name) for name in FOLLOWED if getattr(changes, name) is not None}
    if not given:
        return
    follows = {name: c[f"has_own_{name}"].is_not(True) for name in given}
    differs = or_(*(and_(follows[name], c[name] != value) for name, value in given.items()))
    values: dict[str, Any] = {name: case((follows[name], value), else_=c[name]) for name, value in given.items()}
    change = update(operation).where(c.tbl_id == table, IS_WAITING, differs)
    tx.execute(change.values(values | {"update_time": at}))


def own_values(changes: OperationChanges) -> dict[str, Any]:
    """What is given, as the operation's own from now on."""
    given = {name: getattr(changes, name) for name in FOLLOWED if getattr(changes, name) is not None}
    return given | {f"has_own_{name}": True for name in given}
