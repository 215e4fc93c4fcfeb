# SPDX-License-Identifier: Apache-2.0
"""The audit trail: who asked for what, newest first."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from lakehand.core.ports import AuditFilter
from lakehand.domain.numbers import LARGEST_ID
from lakehand.domain.tables import TableId
from lakehand.web.access import Somebody

router = APIRouter()
PAGE = 100


class AuditPageQuery(BaseModel):
    """The filters of the list, from its address."""

    caller: str = Field(default="", max_length=250)
    action: str = Field(default="", max_length=64)
    table: int | None = Field(default=None, ge=1, le=LARGEST_ID)
    cursor: str | None = Field(default=None, max_length=500)

    def filter(self) -> AuditFilter:
        table = None if self.table is None else TableId(self.table)
        return AuditFilter(caller=self.caller or None, action=self.action or None, table=table)

    def at(self, cursor: str | None) -> str:
        given = self.model_dump(exclude={"cursor"}) | {"cursor": cursor}
        return urlencode({key: str(value) for key, value in given.items() if value})


@router.get("/audit")
def list_audit(view: Somebody, query: Annotated[AuditPageQuery, Query()]) -> Response:
    page = view.context.requests.list_audit(view.caller, query.filter(), limit=PAGE, cursor=query.cursor)
    return view.page("audit.html", section="/audit", page=page, wanted=query,
        is_filtered=bool(query.at(None)), is_later=query.cursor is not None, first=query.at(None),
        after=query.at(page.next) if page.next else "",
    )  # fmt: skip
