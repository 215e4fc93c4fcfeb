# SPDX-License-Identifier: Apache-2.0
"""The route of events: what happened, newest first."""

from typing import Annotated

from fastapi import APIRouter, Query

from lakehand.inputs.fleet import EventQuery
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import PageAnswer
from lakehand.rest.operations import EventAnswer

router = APIRouter(prefix="/api/v1/events", tags=["events"])


@router.get("")
def list_events(query: Annotated[EventQuery, Query()], context: Context, _caller: Caller) -> PageAnswer[EventAnswer]:
    """Events, newest first. `kind` is a whole kind, or a prefix that ends in a dot, for instance `intake.`."""
    page = context.services.events.list(**query.model_dump())
    return PageAnswer(items=[EventAnswer.of(event) for event in page.items], next=page.next)
