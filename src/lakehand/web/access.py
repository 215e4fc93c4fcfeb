# SPDX-License-Identifier: Apache-2.0
"""Who asks for a page, and how they sign in with a token, and out again.

Without a valid session a page leads to the sign-in, and a form is refused. The cookie is for this site and HTTP only.
"""

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from lakehand.core.services.access import SESSION_LIFE
from lakehand.core.services.services import Services
from lakehand.domain.access import Caller
from lakehand.web.context import PageContext
from lakehand.web.forms import Form
from lakehand.web.rendering import HEADERS, Renderer

COOKIE = "lakehand-session"
router = APIRouter()
LIFE = int(SESSION_LIFE.total_seconds())


class SignInNeeded(Exception):
    """The page is only for callers with a token."""


async def renderer_of(request: Request) -> Renderer:
    renderer = request.app.state.renderer
    assert isinstance(renderer, Renderer)
    return renderer


RendererOf = Annotated[Renderer, Depends(renderer_of)]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page, and who sends it."""

    request: Request
    renderer: Renderer
    caller: Caller

    @property
    def context(self) -> PageContext:
        return self.renderer.context

    @property
    def services(self) -> Services:
        return self.context.services

    def page(self, template: str, **values: Any) -> Response:
        return self.renderer.page(template, caller=self.caller, **values)

    def go_to(self, path: str) -> RedirectResponse:
        return RedirectResponse(path, 303, headers=HEADERS)


def caller_of(request: Request) -> Caller | None:
    """Whose session the cookie names; None if it is not valid."""
    renderer: Renderer = request.app.state.renderer
    return renderer.context.services.access.session(request.cookies.get(COOKIE, ""), address=address_of(request))


def address_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def somebody(request: Request, renderer: RendererOf) -> PageRequest:
    caller = caller_of(request)
    if caller is None:
        raise SignInNeeded
    return PageRequest(request, renderer, caller)


Somebody = Annotated[PageRequest, Depends(somebody)]


async def lead_to_sign_in(request: Request, _error: Exception) -> Response:
    if request.method != "GET" or request.url.path == "/live":
        return Response("sign in first", 401, headers=HEADERS, media_type="text/plain")
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/sign-in?next={quote(back, safe='')}", 303, headers=HEADERS)


def own_path(text: str) -> str:
    """A path of ours to go back to, never an address of another site."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_path else "/"


@router.get("/sign-in")
def show_sign_in(renderer: RendererOf, next: Annotated[str, Query(max_length=2000)] = "/") -> Response:
    return renderer.page("sign_in.html", next=own_path(next))


@router.post("/sign-in")
async def sign_in(form: Form, request: Request, renderer: RendererOf) -> Response:
    access, back = renderer.context.services.access, own_path(form.text("next"))
    cookie = await run_in_threadpool(access.sign_in, form.text("token"), address=address_of(request))
    if cookie is None:
        note_wrong_token(request)
        error = "this is not a token of this service: ask its operator for one"
        return await run_in_threadpool(renderer.page, "sign_in.html", status=401, next=back, error=error)
    answer = RedirectResponse(back, 303, headers=HEADERS)
    answer.set_cookie(
        COOKIE, cookie, max_age=LIFE, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return answer


def note_wrong_token(request: Request) -> None:
    """Counted with those of the API, where the pages are served beside it."""
    if note := request.scope.get("note_wrong_token"):
        note("POST /sign-in")


@router.post("/sign-out")
def sign_out(request: Request, renderer: RendererOf) -> Response:
    renderer.context.services.access.sign_out(request.cookies.get(COOKIE, ""), address=address_of(request))
    answer = RedirectResponse("/sign-in", 303, headers=HEADERS)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
