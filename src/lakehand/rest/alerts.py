# SPDX-License-Identifier: Apache-2.0
"""Routes of alerts: list, silence, and send a test."""

from typing import Annotated

from fastapi import APIRouter

from lakehand.api.alerts import (
    AlertAnswer,
    AlertQuery,
    SilenceRequest,
    TestRequest,
    TestsAnswer,
    alert_answer,
)
from lakehand.api.fields import PageAnswer
from lakehand.domain.alerts import AlertId
from lakehand.rest.dependencies import Caller, Services
from lakehand.rest.fields import PathId
from lakehand.rest.queries import from_query

router = APIRouter(prefix="/api/v1/alerts", tags=["alerts"])


@router.get("")
def list_alerts(
    query: Annotated[AlertQuery, from_query(AlertQuery)], services: Services, _caller: Caller
) -> PageAnswer[AlertAnswer]:
    """Alerts, newest first; only open ones unless `state=all`."""
    page = services.alerts.list(query)
    return PageAnswer(items=[alert_answer(alert) for alert in page.items], next=page.next)


@router.post("/test")
def send_test(services: Services, caller: Caller, request: TestRequest | None = None) -> TestsAnswer:
    """Send a test message to one receiver or to all, and wait a few seconds for the outcome."""
    return TestsAnswer(items=list(services.alerts.test(caller, request or TestRequest())))


@router.post("/{id}/silence")
def silence_alert(id: PathId, request: SilenceRequest, services: Services, caller: Caller) -> AlertAnswer:
    """Send no reminder of it for a while."""
    return alert_answer(services.alerts.silence(caller, AlertId(id), request))
