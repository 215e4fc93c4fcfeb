# SPDX-License-Identifier: Apache-2.0
"""Who asks for a page. Without a valid session a page leads to the sign-in, and a form is refused."""

from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Request
from starlette.responses import RedirectResponse, Response

from lakehand.web.context import PageContext
from lakehand.web.rendering import HEADERS, Renderer
from lakehand.web.sessions import COOKIE


class SignInNeeded(Exception):
    """The page is only for callers with a token."""


async def renderer_of(request: Request) -> Renderer:
    renderer = request.app.state.renderer
    assert isinstance(renderer, Renderer)
    return renderer


Pages = Annotated[Renderer, Depends(renderer_of)]


async def context_of(pages: Pages) -> PageContext:
    return pages.context


Context = Annotated[PageContext, Depends(context_of)]


async def caller_of(request: Request, context: Context) -> str:
    caller = context.sessions.caller(request.cookies.get(COOKIE, ""))
    if caller is None:
        raise SignInNeeded
    request.state.caller = caller
    return caller


Caller = Annotated[str, Depends(caller_of)]


async def lead_to_sign_in(request: Request, _error: Exception) -> Response:
    if request.method != "GET" or request.url.path == "/live":
        return Response("sign in first", 401, headers=HEADERS, media_type="text/plain")
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/sign-in?next={quote(back, safe='')}", 303, headers=HEADERS)


def own_path(text: str) -> str:
    """A path of ours to go back to, never an address of another site."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_path else "/"
