# SPDX-License-Identifier: Apache-2.0
"""The route of events."""

from typing import Annotated

from fastapi import APIRouter

from lakehand.api.events import EventAnswer, EventQuery, event_answer
from lakehand.api.fields import PageAnswer, values_of
from lakehand.rest.dependencies import Caller, Context
from lakehand.rest.queries import from_query

router = APIRouter(prefix="/api/v1/events", tags=["events"])


@router.get("")
def list_events(
    query: Annotated[EventQuery, from_query(EventQuery)], context: Context, _caller: Caller
) -> PageAnswer[EventAnswer]:
    """Events, newest first. `kind` is a whole kind, or a prefix that ends in a dot, for instance `intake.`."""
    page = context.services.events.list(**values_of(query))
    return PageAnswer(items=[event_answer(event) for event in page.items], next=page.next)
