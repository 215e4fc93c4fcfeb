# SPDX-License-Identifier: Apache-2.0
"""What people and the service did, newest first."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from lakehand.web.access import Caller, Context, Pages

router = APIRouter()
PAGE = 100


@router.get("/events")
def list_events(
    request: Request, pages: Pages, context: Context, _caller: Caller,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:  # fmt: skip
    page = context.events.list(limit=PAGE, cursor=cursor)
    named = {stored.event.table for stored in page.items if stored.event.table is not None}
    return pages.page(
        request, "events.html", section="/events", watch="" if cursor else "fleet",
        page=page, names=context.tables.names(named), is_later=cursor is not None,
        after=urlencode({"cursor": page.next or ""}),
    )  # fmt: skip
