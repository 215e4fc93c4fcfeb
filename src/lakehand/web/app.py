# SPDX-License-Identifier: Apache-2.0
"""Builds the app of the pages: routes, errors as pages, static files."""

import logging
from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from lakehand.domain.errors import LakehandError
from lakehand.web import access, fleet, operations, service, tables
from lakehand.web.context import PageContext
from lakehand.web.page_cache import PageCache
from lakehand.web.rendering import FOLDER, HEADERS, Renderer, describe

log = logging.getLogger(__name__)
ROUTERS = [module.router for module in (fleet, tables, operations, service, access)]
FIRST_PARTS = frozenset(
    {
        "", "tables", "operations", "alerts", "catalogs", "events", "audit", "service", "start", "sign-in", "sign-out",
        "live", "static", "favicon.ico",
    }
)  # fmt: skip
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PIECE = 16 * 1024  # bytes of a file that are read ahead for a client: whoever does not read it costs little more
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


class PageApp:
    """The pages as an ASGI app that knows its own paths."""

    def __init__(self, context: PageContext) -> None:
        self.app = PageCache(
            build_app(Renderer(context=context)),
            is_session=lambda cookie: context.services.access.session(cookie) is not None,
        )
        context.feed.on_change = self.app.note_change

    def has(self, path: str) -> bool:
        return path[1:].partition("/")[0] in FIRST_PARTS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


def build_pages(context: PageContext) -> PageApp:
    return PageApp(context)


def build_app(renderer: Renderer) -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.renderer = renderer
    for router in ROUTERS:
        app.include_router(router)
    app.add_api_route(f"{renderer.static}/{{name}}", static_file, include_in_schema=False)
    app.add_api_route("/favicon.ico", icon, include_in_schema=False)
    app.add_exception_handler(access.SignInNeeded, access.lead_to_sign_in)
    for kind in (LakehandError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, problem_page)
    return app


async def static_file(name: str) -> Response:
    """Our own files, and the chart library from its package. The address has the version in it."""
    file = chart_library() if name == "plotly.js" else FOLDER / "static" / name
    if "/" in name or not file.is_file() or file.suffix not in KINDS:
        raise HTTPException(404)
    return file_answer(file)


async def icon() -> Response:
    """Browsers ask for it at this address where an answer names none, for instance a refusal."""
    return file_answer(FOLDER / "static" / "icon.svg")


def file_answer(file: Path) -> FileResponse:
    answer = FileResponse(file, headers=FOR_EVER, media_type=KINDS[file.suffix])
    answer.chunk_size = PIECE
    return answer


def chart_library() -> Path:
    """Located without importing the package."""
    found = find_spec("plotly")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "package_data" / "plotly.min.js"


def problem_page(request: Request, error: Exception) -> Response:
    status, message = describe(error)
    if status >= 500:
        log.warning("a page failed", extra={"path": request.url.path, "error": str(error)}, exc_info=error)
    renderer: Renderer = request.app.state.renderer
    try:
        return renderer.page("problem.html", status=status, error=message, caller=access.caller_of(request))
    except LakehandError:  # the database is away: the page asks it for the time
        return Response(message, status, headers=HEADERS, media_type="text/plain")
