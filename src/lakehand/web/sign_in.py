# SPDX-License-Identifier: Apache-2.0
"""Sign in with a token, and out again. The cookie is for this site and for HTTP only."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from lakehand.core.services.access import SESSION_LIFE
from lakehand.web.access import COOKIE, RendererOf, address_of, own_path
from lakehand.web.forms import Form
from lakehand.web.rendering import HEADERS

router = APIRouter()
LIFE = int(SESSION_LIFE.total_seconds())


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
