# SPDX-License-Identifier: Apache-2.0
"""Sign in with a token, and out again. The cookie is for this site and for HTTP only."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from lakehand.web.access import Context, Pages, own_path
from lakehand.web.forms import Form
from lakehand.web.rendering import HEADERS
from lakehand.web.sessions import COOKIE, LIFE

router = APIRouter()


@router.get("/sign-in")
def show_sign_in(request: Request, pages: Pages, next: Annotated[str, Query(max_length=2000)] = "/") -> Response:
    return pages.page(request, "sign_in.html", next=own_path(next))


@router.post("/sign-in")
def sign_in(form: Form, request: Request, pages: Pages, context: Context) -> Response:
    cookie, back = context.sessions.sign_in(form.text("token")), own_path(form.text("next"))
    if cookie is None:
        context.on_wrong_token(request.client.host if request.client else "unknown")
        error = "this is not a token of this service: ask its operator for one"
        return pages.page(request, "sign_in.html", status=401, next=back, error=error)
    answer = RedirectResponse(back, 303, headers=HEADERS)
    answer.set_cookie(
        COOKIE, cookie, max_age=LIFE, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return answer


@router.post("/sign-out")
def sign_out() -> Response:
    answer = RedirectResponse("/sign-in", 303, headers=HEADERS)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
