# SPDX-License-Identifier: Apache-2.0
"""Builds the ASGI app: routes, errors, bounds, metrics, and the Hudi wire in front of them."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakehand.core.services.readiness import ReadinessCheck
from lakehand.core.services.wrong_tokens import WrongTokens
from lakehand.rest import commits, errors, fleet, health, operations, rfc43, service, tables, tokens
from lakehand.rest.bodies import BoundedBodies
from lakehand.rest.context import ApiContext
from lakehand.rest.dependencies import address_of
from lakehand.rest.errors import ProblemAnswer
from lakehand.rest.foreign_requests import ForeignRequests
from lakehand.rest.wire import PREFIX, HudiWire

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
HUDI_PREFIX = "/v1/hudi/service/"
ROUTERS = [module.router for module in (commits, tables, operations, fleet, tokens, service, rfc43, health)]
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": ProblemAnswer, "description": text}
    for code, text in (
        (401, "No valid token."),
        (403, "The caller's role or owner does not allow it, or a browser sent it for a page of another site."),
        (404, "It does not exist."),
        (409, "It contradicts what is stored."),
        (413, "The body is too large."),
        (415, "It has no Content-Type: application/json."),
        (421, "It names a host that is not this service."),
        (422, "It does not make sense."),
        (503, "The database does not answer."),
    )
}


class Pages(Protocol):
    """Pages for people, beside the API: an ASGI app that knows its own paths."""

    def has(self, path: str) -> bool: ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class NoPages:
    def has(self, path: str) -> bool:
        return False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


def build_app(context: ApiContext, pages: Pages | None = None) -> FastAPI:
    """The ASGI app. Its lifespan must run, so that waiting requests are stored before the process ends."""
    pages = pages or NoPages()
    wires: list[HudiWire] = []
    commit_handler = commits.CommitHandler(context=context)
    app = FastAPI(
        title="Lakehand",
        summary="Keeps lakehouse tables healthy while other people's jobs write to them.",
        version=context.services.about.version,
        openapi_url=None,  # see rest/service.py: it needs a token, as all that it describes
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        responses=dict(PROBLEMS),
        lifespan=partial(lifespan, wires),
        middleware=[
            Middleware(HudiPaths),
            Middleware(ForeignRequests, hosts=context.security.hosts, refusals=context.refusals, is_page=pages.has),
            Middleware(wired, context=context, wires=wires),
            Middleware(commits.CommitEvents, handler=commit_handler),
            Middleware(RequestMetrics, on_request=context.on_request),
            Middleware(BoundedBodies, most=context.security.max_body),
            Middleware(PageRoutes, pages=pages),
        ],
    )
    app.state.context = context
    app.state.readiness_check = ReadinessCheck(context.services.readiness)
    app.state.wrong_tokens = WrongTokens(context.services.events, partial(now, context))
    app.state.commit_handler = commit_handler
    errors.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.include_router(operations.plans)
    return app


def now(context: ApiContext) -> datetime:
    return context.intake.store.clock.now()


class HudiPaths:
    """Takes ``/v1/hudi/service`` for RFC-43's path. Plain ASGI, before all that knows paths."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(HUDI_PREFIX):
            path = PREFIX + scope["path"].removeprefix(HUDI_PREFIX)
            scope = {**scope, "path": path, "raw_path": quote(path).encode()}
        await self.app(scope, receive, send)


class PageRoutes:
    """Gives requests for pages to the pages, and all others to the API. Plain ASGI."""

    def __init__(self, app: ASGIApp, *, pages: Pages) -> None:
        self.app = app
        self.pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self.pages.has(scope["path"]):
            return await self.app(scope, receive, send)
        wrong_tokens = scope["app"].state.wrong_tokens
        scope["note_wrong_token"] = partial(wrong_tokens.note, address_of(scope))
        return await self.pages(scope, receive, send)


def wired(app: ASGIApp, *, context: ApiContext, wires: list[HudiWire]) -> HudiWire:
    wires.append(HudiWire(app, context=context))
    return wires[-1]


@asynccontextmanager
async def lifespan(wires: list[HudiWire], app: FastAPI) -> AsyncIterator[None]:
    yield
    for wire in wires:
        wire.group_commit.close()
    app.state.commit_handler.close()
    app.state.readiness_check.close()
    app.state.wrong_tokens.close()


class RequestMetrics:
    """Metrics of every request by route template, method and status. Plain ASGI."""

    def __init__(self, app: ASGIApp, *, on_request: Callable[[str, str, int, float], None]) -> None:
        self.app = app
        self.on_request = on_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        status, began = 500, time.perf_counter()

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, note_status)
        finally:
            # The route template, never the path: the number of label values must stay small.
            template = str(getattr(scope.get("route"), "path", "unmatched"))
            method = str(scope["method"]) if scope["method"] in METHODS else "OTHER"
            self.on_request(template, method, status, time.perf_counter() - began)
