# SPDX-License-Identifier: Apache-2.0
"""The route of events: what happened, newest first."""

from fastapi import APIRouter

from lakehand.domain.operations import OperationId
from lakehand.domain.tables import TableId
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import Cursor, Filter, IdFilter, Limit, PageAnswer
from lakehand.rest.operation_shapes import EventAnswer

router = APIRouter(prefix="/api/v1/events", tags=["events"])


@router.get("")
def list_events(
    *,
    context: Context,
    _caller: Caller,
    table: IdFilter = None,
    operation: IdFilter = None,
    kind: Filter = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> PageAnswer[EventAnswer]:
    """Events, newest first. `kind` is a whole kind, or a prefix that ends in a dot, for instance `intake.`."""
    page = context.events.list(
        table=None if table is None else TableId(table),
        operation=None if operation is None else OperationId(operation),
        kind=kind,
        limit=limit,
        cursor=cursor,
    )
    return PageAnswer(items=[EventAnswer.of(event) for event in page.items], next=page.next)
