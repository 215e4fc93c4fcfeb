# SPDX-License-Identifier: Apache-2.0
"""Routes of alerts: list, silence, and send a test."""

from typing import Annotated

from fastapi import APIRouter

from lakehand.api.alerts import (
    AlertAnswer,
    AlertQuery,
    SilenceRequest,
    TestAnswer,
    TestRequest,
    TestsAnswer,
    alert_answer,
)
from lakehand.api.fields import PageAnswer, answer
from lakehand.domain.alerts import AlertId
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import PathId
from lakehand.rest.queries import from_query

router = APIRouter(prefix="/api/v1/alerts", tags=["alerts"])


@router.get("")
def list_alerts(
    query: Annotated[AlertQuery, from_query(AlertQuery)], context: Context, _caller: Caller
) -> PageAnswer[AlertAnswer]:
    """Alerts, newest first; only open ones unless `state=all`."""
    page = context.alerts.list(only_open=query.state == "open", limit=query.limit, cursor=query.cursor)
    return PageAnswer(items=[alert_answer(alert) for alert in page.items], next=page.next)


@router.post("/test")
def send_test(context: Context, caller: Caller, request: TestRequest | None = None) -> TestsAnswer:
    """Send a test message to one receiver or to all, and wait a few seconds for the outcome."""
    results = context.requests.test_alerts(caller, request or TestRequest())
    return TestsAnswer(items=[answer(TestAnswer, one) for one in results])


@router.post("/{id}/silence")
def silence_alert(id: PathId, request: SilenceRequest, context: Context, caller: Caller) -> AlertAnswer:
    """Send no reminder of it for a while."""
    return alert_answer(context.requests.silence_alert(caller, AlertId(id), request))
