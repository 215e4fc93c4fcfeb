# SPDX-License-Identifier: Apache-2.0
"""Routes for monitoring: alive, ready, metrics. They answer even while the database hangs."""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from lakehand.core.services.readiness import OK, ReadinessCheck
from lakehand.rest.dependencies import Context, Credentials, secret_of

router = APIRouter(tags=["health"])
WITHOUT_DETAILS = {"database": "away", "instance": "draining"}  # shown without a token instead of the details
NOT_OK = "not ok"


class LiveAnswer(BaseModel):
    status: str = OK


class ReadyAnswer(BaseModel):
    status: str
    parts: dict[str, str]


@router.get("/health/live")
async def is_live() -> LiveAnswer:
    """The process runs and answers."""
    return LiveAnswer()


@router.get("/health/ready", responses={503: {"model": ReadyAnswer, "description": "Not ready, and why."}})
async def is_ready(request: Request, response: Response, context: Context, credentials: Credentials) -> ReadyAnswer:
    """Whether the service can work. Each part is `ok` or, for callers with a token, says what is wrong."""
    check = request.app.state.readiness_check
    assert isinstance(check, ReadinessCheck)
    parts = await check.parts()
    ready = all(part == OK for part in parts.values())
    response.status_code = 200 if ready else 503
    is_known = context.services.access.remembers(secret_of(credentials))
    known = parts if is_known else {part: public(part, text) for part, text in parts.items()}
    return ReadyAnswer(status="ready" if ready else "not-ready", parts=dict(known))


def public(part: str, text: str) -> str:
    return text if text == OK else WITHOUT_DETAILS.get(part, NOT_OK)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def show_metrics(context: Context) -> Response:
    """Prometheus metrics."""
    body, content_type = context.metrics_text()
    return Response(body, headers={"content-type": content_type})
