# SPDX-License-Identifier: Apache-2.0
"""The first page: is everything all right, what needs a person, what was done; and the stream of what changed.

Of an empty service: find the tables of a folder, a bucket or a catalog, and register them.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from lakehand.domain.access import Role
from lakehand.domain.errors import LakehandError
from lakehand.domain.fleet import FleetTrend, OperationHour, TableState
from lakehand.web.access import PageRequest, Somebody, caller_of
from lakehand.web.charts import Chart, Series
from lakehand.web.context import DiscoveredTable, PageContext
from lakehand.web.forms import Form
from lakehand.web.live import Topic
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
MOST_SHOWN = 1000  # discovered tables


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
    stream = view.context.feed.open(Topic.read(about), lambda: caller_of(view.request) == view.caller)
    return StreamingResponse(stream, headers=headers, media_type="text/event-stream")


@router.get("/start")
def find_tables(view: Somebody, where: Annotated[str, Query(max_length=1024)] = "") -> Response:
    """Tables appear as they are found: the page is sent while the folders are still being read."""
    where = where.strip()
    context = view.context
    values: dict[str, Any] = {
        "section": "/start", "caller": view.caller, "where": where, "warehouses": context.warehouses,
        "url": str(view.request.base_url).rstrip("/"), "catalogs": sorted(context.services.catalogs.catalogs),
    }  # fmt: skip
    if not where:
        return view.renderer.page("start.html", **values, discovery=None)
    view.caller.need(Role.OPERATOR)  # it reads folders
    return view.renderer.stream("start.html", **values, discovery=Discovery(context, where))


class Discovery:
    """Discovered tables, and the problem that ended the search, if there was one."""

    def __init__(self, context: PageContext, where: str) -> None:
        self.context, self.where = context, where
        self.problem = ""
        self.count = 0
        self.is_cut = False

    @property
    def tables(self) -> Iterator[tuple[DiscoveredTable, bool]]:
        """Each with whether it is registered already."""
        try:
            for found in self.context.discovery.discover(self.where):
                if self.count >= MOST_SHOWN:
                    self.is_cut = True
                    return
                if not found.location:
                    self.problem = found.problem
                    continue
                self.count += 1
                yield found, self.context.services.tables.has(found.location)
        except LakehandError as error:
            self.problem = str(error)


@router.post("/start")
def register(form: Form, view: Somebody) -> Response:
    results = [register_one(view, name) for name in form.all("table")[:MOST_SHOWN]]
    return view.page("registered.html", section="/start", results=results)


def register_one(view: PageRequest, name: str) -> tuple[str, object, str]:
    """The name, the table, and why it was refused."""
    try:
        table, is_new = view.services.tables.add(view.caller, view.context.discovery.new_table(name))
    except LakehandError as error:
        return name, None, str(error)
    return name, table, "" if is_new else "it was registered already"
