# SPDX-License-Identifier: Apache-2.0
"""The first page: is everything all right, what needs a person, what was done. And the stream of what changed."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from lakehand.domain.fleet import FleetTrend, OperationHour, TableState
from lakehand.web.access import Somebody, caller_of
from lakehand.web.charts import Chart, Series
from lakehand.web.live import read_topic
from lakehand.web.rendering import HEADERS
from lakehand.web.texts import iso

router = APIRouter()
SHOWN_STATES = (
    TableState.HEALTHY, TableState.NEEDS_WORK, TableState.WORKING, TableState.FAILED, TableState.PAUSED,
    TableState.UNREADABLE, TableState.NEW,
)  # fmt: skip
PERSONS = 10
OWNER_COLOURS = ("needs-work", "unreadable", "healthy")
STATUS_COLOURS = {"succeeded": "healthy", "retried": "needs-work", "failed": "failed"}
WEEK = timedelta(days=7)


@router.get("/")
def show_fleet(view: Somebody) -> Response:
    services = view.services
    fleet = services.fleet
    summary = fleet.summary()
    if not summary.totals.tables:
        return view.go_to("/start")
    return view.page("fleet.html", section="/", watch="fleet",
        summary=summary,
        states=[(state, summary.states[state]) for state in SHOWN_STATES],
        needs_person=fleet.needs_person(limit=PERSONS),
        debt=debt_chart(fleet.trend(WEEK)),
        operations=operations_chart(fleet.operations_by_hour()),
        done=fleet.done(),
        queues=fleet.queues(),
        engines=[one for one in services.plugins() if one.kind == "engine"],
        instances=services.instances.list(),
    )  # fmt: skip


def debt_chart(trend: FleetTrend) -> Chart:
    lines = {"all tables": trend.total, **trend.owners} if len(trend.owners) > 1 else {"all tables": trend.total}
    colours = dict(zip(lines, ("working", *OWNER_COLOURS), strict=False))
    return Chart(
        id="debt", title="Small files, 7 days", unit="small files",
        nothing="The first point is stored a few minutes after the first table was inspected.",
        series=[
            Series(
                name=name, colour=colours[name], x=[iso(point.at) for point in points],
                y=[point.totals.small_files for point in points],
            )
            for name, points in lines.items()
        ],
    )  # fmt: skip


def operations_chart(ended: Sequence[OperationHour]) -> Chart:
    return Chart(
        id="operations", title="Operations that ended, per hour", unit="operations", stacked=True,
        nothing="No operation has ended in the last 24 hours.",
        series=[
            Series(
                name=status, colour=colour, x=[iso(hour.hour) for hour in ended],
                y=[getattr(hour, status) for hour in ended], bars=True,
            )
            for status, colour in STATUS_COLOURS.items()
        ],
    )  # fmt: skip


@router.get("/live")
async def watch(view: Somebody, about: Annotated[str, Query(max_length=40)] = "") -> StreamingResponse:
    """One word whenever what the page is about has changed, as long as the session is valid."""
    headers = {**HEADERS, "X-Accel-Buffering": "no"}
    stream = view.context.live.open(read_topic(about), lambda: caller_of(view.request) == view.caller)
    return StreamingResponse(stream, headers=headers, media_type="text/event-stream")
