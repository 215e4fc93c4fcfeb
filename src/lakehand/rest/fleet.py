# SPDX-License-Identifier: Apache-2.0
"""Routes about all tables together: catalogs (without their properties: these may be secret), alerts, events, fleet."""

from typing import Annotated

from fastapi import APIRouter

from lakehand.api.alerts import AlertAnswer, AlertQuery, SilenceRequest, TestRequest, TestsAnswer, alert_answer
from lakehand.api.catalogs import CatalogsAnswer, SyncAnswer, SyncRequest
from lakehand.api.events import EventAnswer, EventQuery, event_answer
from lakehand.api.fields import Name, PageAnswer, values_of
from lakehand.api.fleet import FleetAnswer, FleetQuery
from lakehand.domain.alerts import AlertId
from lakehand.rest.dependencies import Caller, Context, PathId, Services, from_query

router = APIRouter(prefix="/api/v1")


@router.get("/catalogs", tags=["catalogs"])
def list_catalogs(services: Services, _caller: Caller) -> CatalogsAnswer:
    """The catalogs of the settings, and what the last sync of each changed."""
    return CatalogsAnswer(items=list(services.catalogs.list_all()))


@router.post("/catalogs/{name}/sync", tags=["catalogs"])
def sync_catalog(name: Name, services: Services, caller: Caller, request: SyncRequest | None = None) -> SyncAnswer:
    """Register its new tables and retire those that were dropped, now."""
    return services.catalogs.sync(caller, name, request or SyncRequest())


@router.get("/alerts", tags=["alerts"])
def list_alerts(
    query: Annotated[AlertQuery, from_query(AlertQuery)], services: Services, _caller: Caller
) -> PageAnswer[AlertAnswer]:
    """Alerts, newest first; only open ones unless `state=all`."""
    page = services.alerts.list(query)
    return PageAnswer(items=[alert_answer(alert) for alert in page.items], next=page.next)


@router.post("/alerts/test", tags=["alerts"])
def send_test(services: Services, caller: Caller, request: TestRequest | None = None) -> TestsAnswer:
    """Send a test message to one receiver or to all, and wait a few seconds for the outcome."""
    return TestsAnswer(items=list(services.alerts.test(caller, request or TestRequest())))


@router.post("/alerts/{id}/silence", tags=["alerts"])
def silence_alert(id: PathId, request: SilenceRequest, services: Services, caller: Caller) -> AlertAnswer:
    """Send no reminder of it for a while."""
    return alert_answer(services.alerts.silence(caller, AlertId(id), request))


@router.get("/events", tags=["events"])
def list_events(
    query: Annotated[EventQuery, from_query(EventQuery)], context: Context, _caller: Caller
) -> PageAnswer[EventAnswer]:
    """Events, newest first. `kind` is a whole kind, or a prefix that ends in a dot, for instance `intake.`."""
    page = context.services.events.list(**values_of(query))
    return PageAnswer(items=[event_answer(event) for event in page.items], next=page.next)


@router.get("/fleet", tags=["fleet"])
def show_fleet(
    query: Annotated[FleetQuery, from_query(FleetQuery)], services: Services, _caller: Caller
) -> FleetAnswer:
    """How many tables are healthy, what needs a person, and what was done."""
    return services.fleet.show(query)
