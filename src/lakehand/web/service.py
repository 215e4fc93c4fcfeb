# SPDX-License-Identifier: Apache-2.0
"""Pages about the service as a whole: alerts, catalogs, events, the audit trail, instances and plugins."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from lakehand.api.access import AuditQuery
from lakehand.api.alerts import AlertQuery, SilenceRequest
from lakehand.api.catalogs import SyncRequest
from lakehand.domain.alerts import AlertId
from lakehand.domain.texts import LARGEST_ID
from lakehand.web.access import Somebody
from lakehand.web.forms import Form

router = APIRouter()
PAGE = 100
HOURS = (1, 8, 24, 168)  # that the form offers


@router.get("/alerts")
def list_alerts(
    view: Somebody,
    state: Annotated[str, Query(max_length=10)] = "open",
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:
    service = view.services.alerts
    page = service.list(AlertQuery(state="all" if state == "all" else "open", limit=PAGE, cursor=cursor))
    return view.page("alerts.html", section="/alerts", watch="" if cursor else "fleet",
        page=page, shows_all=state == "all", hours=HOURS, receivers=sorted(service.receivers),
    )  # fmt: skip


@router.post("/alerts/{id}/silence")
def silence_alert(id: Annotated[int, Path(ge=1, le=LARGEST_ID)], form: Form, view: Somebody) -> Response:
    request = SilenceRequest(duration=3600 * form.number("hours"))
    view.services.alerts.silence(view.caller, AlertId(id), request)
    return view.go_to("/alerts")


@router.get("/catalogs")
def list_catalogs(view: Somebody) -> Response:
    return view.page("catalogs.html", section="/catalogs", catalogs=view.services.catalogs.list_all())


@router.post("/catalogs/{name}/sync")
def sync_catalog(name: str, form: Form, view: Somebody) -> Response:
    """The page shows the report as that of the last sync."""
    view.services.catalogs.sync(view.caller, name, form.read(SyncRequest))
    return view.go_to("/catalogs")


@router.get("/events")
def list_events(
    view: Somebody,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:  # fmt: skip
    page = view.services.events.list(limit=PAGE, cursor=cursor)
    named = {stored.event.table for stored in page.items if stored.event.table is not None}
    return view.page("events.html", section="/events", watch="" if cursor else "fleet",
        page=page, names=view.services.tables.names(named), is_later=cursor is not None,
        after=urlencode({"cursor": page.next or ""}),
    )  # fmt: skip


class AuditPageQuery(BaseModel):
    """The filters of the list, from its address."""

    caller: str = Field(default="", max_length=250)
    action: str = Field(default="", max_length=64)
    table: int | None = Field(default=None, ge=1, le=LARGEST_ID)
    cursor: str | None = Field(default=None, max_length=500)

    def query(self) -> AuditQuery:
        caller, action = self.caller or None, self.action or None
        return AuditQuery(caller=caller, action=action, table=self.table, limit=PAGE, cursor=self.cursor)

    def at(self, cursor: str | None) -> str:
        given = self.model_dump(exclude={"cursor"}) | {"cursor": cursor}
        return urlencode({key: str(value) for key, value in given.items() if value})


@router.get("/audit")
def list_audit(view: Somebody, query: Annotated[AuditPageQuery, Query()]) -> Response:
    page = view.services.audit.list(view.caller, query.query())
    return view.page("audit.html", section="/audit", page=page, wanted=query,
        is_filtered=bool(query.at(None)), is_later=query.cursor is not None, first=query.at(None),
        after=query.at(page.next) if page.next else "",
    )  # fmt: skip


@router.get("/service")
def show_service(view: Somebody) -> Response:
    services = view.services
    return view.page("service.html", section="/service", watch="fleet",
        readiness=sorted(services.readiness().items()), instances=services.instances.list(), plugins=services.plugins(),
        instance=services.about.instance,
    )  # fmt: skip
