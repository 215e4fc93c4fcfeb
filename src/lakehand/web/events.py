# SPDX-License-Identifier: Apache-2.0
"""What people and the service did, newest first."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.responses import Response

from lakehand.web.access import Somebody

router = APIRouter()
PAGE = 100


@router.get("/events")
def list_events(
    view: Somebody,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:  # fmt: skip
    page = view.context.events.list(limit=PAGE, cursor=cursor)
    named = {stored.event.table for stored in page.items if stored.event.table is not None}
    return view.page("events.html", section="/events", watch="" if cursor else "fleet",
        page=page, names=view.context.tables.names(named), is_later=cursor is not None,
        after=urlencode({"cursor": page.next or ""}),
    )  # fmt: skip
