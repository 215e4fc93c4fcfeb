# SPDX-License-Identifier: Apache-2.0
"""Routes for monitoring: alive, ready, metrics. They answer even while the database hangs."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from lakehand.rest.access import Context, Credentials, secret_of

log = logging.getLogger(__name__)
router = APIRouter(tags=["health"])
TIMEOUT = 2.0  # seconds
OK = "ok"
WITHOUT_DETAILS = {"database": "away"}  # shown without a token instead of the details
NOT_OK = "not ok"


class LiveAnswer(BaseModel):
    status: str = OK


class ReadyAnswer(BaseModel):
    status: str
    parts: dict[str, str]


class ReadinessCheck:
    """Checks the readiness in a thread of its own, one check at a time, with a timeout."""

    def __init__(self, readiness: Callable[[], Mapping[str, str]], timeout: float = TIMEOUT) -> None:
        self._readiness = readiness
        self._timeout = timeout
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._asked: asyncio.Future[Mapping[str, str]] | None = None
        self._last: Mapping[str, str] = {}

    async def parts(self) -> Mapping[str, str]:
        loop = asyncio.get_running_loop()
        if self._asked is None or self._asked.done() or self._asked.get_loop() is not loop:
            self._asked = loop.run_in_executor(self._thread, self._ask)
        done, _ = await asyncio.wait([self._asked], timeout=self._timeout)
        return self._asked.result() if done else {"service": f"no answer within {self._timeout:g} s"}

    def _ask(self) -> Mapping[str, str]:
        try:
            parts = self._readiness()
        except Exception as error:
            parts = {"service": str(error) or type(error).__name__}
        self._log(parts)
        return parts

    def _log(self, parts: Mapping[str, str]) -> None:
        """Once per change. The details are for operators; callers without a token do not see them."""
        wrong = {part: text for part, text in parts.items() if text != OK}
        if wrong and wrong != self._last:
            log.warning("not ready", extra={"parts": wrong})
        self._last = wrong

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


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
    is_known = context.access.remembers(secret_of(credentials))
    known = parts if is_known else {part: public(part, text) for part, text in parts.items()}
    return ReadyAnswer(status="ready" if ready else "not-ready", parts=dict(known))


def public(part: str, text: str) -> str:
    return text if text == OK else WITHOUT_DETAILS.get(part, NOT_OK)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def show_metrics(context: Context) -> Response:
    """Prometheus metrics."""
    body, content_type = context.metrics_text()
    return Response(body, headers={"content-type": content_type})
