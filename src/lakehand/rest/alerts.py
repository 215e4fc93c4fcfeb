# SPDX-License-Identifier: Apache-2.0
"""Routes of alerts: list, silence, and send a test. Addresses and secrets of receivers are never shown."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from typing_extensions import Self

from lakehand.domain.alerts import Alert, AlertId
from lakehand.inputs.alerts import AlertQuery, SilenceRequest, TestRequest
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import Answer, Moment, PageAnswer, PathId, fields_of

router = APIRouter(prefix="/api/v1/alerts", tags=["alerts"])


class AlertAnswer(Answer):
    id: int
    kind: str = Field(examples=["operation-failed"])
    severity: Literal["critical", "warning"]
    title: str
    message: str
    key: str = Field(description="The cause: at most one open alert has it.")
    table: int | None
    operation: int | None
    owner: str
    queue: str
    format: str
    instance: str = Field(description="The instance that alone can see it; empty: all can.")
    opened_at: Moment
    last_seen: Moment
    resolved_at: Moment | None
    count: int = Field(description="How many occurrences were seen.")
    silenced_until: Moment | None

    @classmethod
    def of(cls, alert: Alert) -> Self:
        return cls(**fields_of(alert.cause, alert) | {"severity": str(alert.cause.severity)})


class TestAnswer(Answer):
    receiver: str
    sent: bool
    problem: str = Field(description="Why it was not sent; empty if it was.")


class TestsAnswer(BaseModel):
    items: list[TestAnswer]


@router.get("")
def list_alerts(query: Annotated[AlertQuery, Query()], context: Context, _caller: Caller) -> PageAnswer[AlertAnswer]:
    """Alerts, newest first; only open ones unless `state=all`."""
    page = context.alerts.list(only_open=query.state == "open", limit=query.limit, cursor=query.cursor)
    return PageAnswer(items=[AlertAnswer.of(alert) for alert in page.items], next=page.next)


@router.post("/test")
def send_test(context: Context, caller: Caller, request: TestRequest | None = None) -> TestsAnswer:
    """Send a test message to one receiver or to all, and wait a few seconds for the outcome."""
    results = context.requests.test_alerts(caller, request.receiver if request else None)
    return TestsAnswer(items=[TestAnswer.model_validate(one) for one in results])


@router.post("/{id}/silence")
def silence_alert(id: PathId, request: SilenceRequest, context: Context, caller: Caller) -> AlertAnswer:
    """Send no reminder of it for a while."""
    return AlertAnswer.of(context.requests.silence_alert(caller, AlertId(id), timedelta(seconds=request.duration)))
