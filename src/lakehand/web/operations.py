# SPDX-License-Identifier: Apache-2.0
"""The list of operations, and the page of one operation with its cancel and retry."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from lakehand.api.operations import OperationQuery
from lakehand.core.services.operations import OperationDetail
from lakehand.core.services.services import Services
from lakehand.domain.errors import LakehandError
from lakehand.domain.operations import REOPENABLE, Operation, OperationId, Status
from lakehand.domain.processes import Json
from lakehand.domain.row_checks import row_report
from lakehand.domain.tables import TableId
from lakehand.domain.texts import LARGEST_ID
from lakehand.web.access import PageRequest, Somebody
from lakehand.web.charts import Axis, timeline
from lakehand.web.rendering import status_of
from lakehand.web.tables import PathId, shown_numbers
from lakehand.web.texts import amount, number

router = APIRouter()
PAGE = 50
LOG_BYTES = 16_384


class OperationsQuery(BaseModel):
    """The filters of the list, from its address."""

    table: int | None = Field(default=None, ge=1, le=LARGEST_ID)
    status: str = Field(default="", max_length=20)
    action: str = Field(default="", max_length=64)
    owner: str = Field(default="", max_length=250)
    queue: str = Field(default="", max_length=250)
    cursor: str | None = Field(default=None, max_length=500)

    def query(self) -> OperationQuery:
        return OperationQuery(
            table=self.table, status=self.status if self.status in {str(status) for status in Status} else None,
            action=self.action or None, owner=self.owner or None, queue=self.queue or None, limit=PAGE,
            cursor=self.cursor,
        )  # fmt: skip

    def at(self, cursor: str | None) -> str:
        given = self.model_dump(exclude={"cursor"}) | {"cursor": cursor}
        return urlencode({key: str(value) for key, value in given.items() if value})


@router.get("/operations")
def list_operations(view: Somebody, query: Annotated[OperationsQuery, Query()]) -> Response:
    services = view.services
    page = services.operations.list(query.query())
    return view.page("operations.html", section="/operations", watch="" if query.cursor else "fleet",
        wanted=query, page=page,
        table=services.tables.get(TableId(query.table)) if query.table else None,
        statuses=list(Status),
        actions=sorted({pair.action for plugin in services.plugins() for pair in plugin.strategies}),
        choices=services.fleet.choices(),
        is_filtered=bool(query.at(None)),
        is_later=query.cursor is not None,
        first=query.at(None),
        after=query.at(page.next) if page.next else "",
    )  # fmt: skip


@router.get("/operations/{id}")
def show_operation(id: PathId, view: Somebody) -> Response:
    return operation_page(view, OperationId(id))


@router.post("/operations/{id}/cancel")
def cancel(id: PathId, view: Somebody) -> Response:
    view.services.operations.cancel(view.caller, OperationId(id))
    return view.go_to(f"/operations/{id}")


@router.post("/operations/{id}/retry")
def retry(id: PathId, view: Somebody) -> Response:
    try:
        view.services.operations.retry(view.caller, OperationId(id))
    except LakehandError as error:
        if status_of(error) != 409:
            raise
        return operation_page(view, OperationId(id), status=409, error=str(error), address=f"/operations/{id}")
    return view.go_to(f"/operations/{id}")


def operation_page(view: PageRequest, id: OperationId, **more: Any) -> Response:
    services = view.services
    detail = services.operations.show(id)
    operation, now = detail.operation, services.clock.estimate()
    log, no_log = end_of_log(services, operation)
    return view.page("operation.html", **more, section="/operations", watch=f"operation:{id}",
        operation=operation, table=detail.table, attempts=detail.attempts, events=detail.events,
        timeline=timeline_of(detail, now),
        can_cancel=not operation.status.is_final and not operation.cancel_requested,
        can_retry=operation.status in REOPENABLE,
        result=list(numbers(operation.result)),
        rows=row_report(operation.result),
        effect=list(effect_of(services, detail)),
        log=log, no_log=no_log,
    )  # fmt: skip


def effect_of(services: Services, detail: OperationDetail) -> Iterator[tuple[str, str, str]]:
    """The numbers of the table before the operation and after it: name, before, after."""
    operation = detail.operation
    if operation.started_at is None or operation.finished_at is None:
        return
    points = services.health.history(detail.table.id).points
    before = [one for one in points if one.at <= operation.started_at]
    after = [one for one in points if one.at >= operation.finished_at]
    if before and after:
        left, right = dict(shown_numbers(before[-1].numbers)), dict(shown_numbers(after[0].numbers))
        yield from ((name, left[name], right[name]) for name in left if name in right)


def timeline_of(detail: OperationDetail, now: datetime) -> object:
    operation = detail.operation
    return timeline(Axis(operation.created_at, operation.finished_at or now), detail.attempts)


def end_of_log(services: Services, operation: Operation) -> tuple[str, str]:
    """The end of the last attempt's log; or why there is none."""
    try:
        missing = "It has none." if operation.status.is_final else "The log is empty so far."
        return services.operations.log_end(operation.id, most=LOG_BYTES), missing
    except LakehandError as error:
        return "", f"There is none: {error}"
    except OSError as error:
        return "", f"It cannot be read: {error}"


def numbers(result: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """What an operation reports, in words; lists are shown elsewhere."""
    for name, value in result.items():
        if isinstance(value, bool | str):
            yield name.replace("_", " "), str(value).lower() if isinstance(value, bool) else value
        elif isinstance(value, int | float):
            yield name.replace("_", " "), amount(value) if "bytes" in name else number(value)
