# SPDX-License-Identifier: Apache-2.0
"""Turns errors into answers, once for all routes: ``{"error": {"code", "message"}}`` and a status."""

import json
import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from lakehand.api.fields import describe_faults
from lakehand.domain.errors import LakehandError

log = logging.getLogger(__name__)

STATUSES: Mapping[str, int] = {
    "not-found": 404,
    "invalid": 422,
    "location-refused": 422,
    "conflict": 409,
    "location-taken": 409,
    "illegal-step": 409,
    "lease-lost": 409,
    "unauthorized": 401,
    "forbidden": 403,
    "unavailable": 503,
}
HEADERS: Mapping[int, Mapping[str, str]] = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "2"}}
WORDS: Mapping[int, str] = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 503: "unavailable"}


class Problem(BaseModel):
    code: str = Field(description="A short word for machines.", examples=["not-found"])
    message: str = Field(description="What is wrong, then what to do.", examples=["table 7 was removed"])


class ProblemAnswer(BaseModel):
    """The answer to every failed request."""

    error: Problem


def problem(status: int, code: str, message: str) -> Response:
    # ASCII: a message may quote text that cannot be encoded.
    body = json.dumps({"error": {"code": code, "message": message}})
    return Response(body, status, headers=dict(HEADERS.get(status, {})), media_type="application/json")


async def answer_lakehand_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, LakehandError)
    status = STATUSES.get(error.code, 500)
    if status >= 500:
        log.warning("a request failed", extra={"route": route_of(request), "code": error.code, "error": str(error)})
    return problem(status, error.code, str(error))


async def answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem(422, "invalid", describe_faults(error.errors()))


async def answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, WORDS.get(error.status_code, "invalid"), str(error.detail))


async def answer_unexpected(request: Request, error: Exception) -> Response:
    log.error("a request failed unexpectedly", extra={"route": route_of(request)}, exc_info=error)
    return problem(500, "error", "the request failed unexpectedly: see the log of the service")


def route_of(request: Request) -> str:
    return str(getattr(request.scope.get("route"), "path", request.url.path))


def install(app: FastAPI) -> None:
    app.add_exception_handler(LakehandError, answer_lakehand_error)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(HTTPException, answer_http)
    app.add_exception_handler(Exception, answer_unexpected)
