# SPDX-License-Identifier: Apache-2.0
"""Sign in with a token, and out again. The cookie is for this site and for HTTP only."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from lakehand.web.access import Anybody, own_path
from lakehand.web.forms import Form
from lakehand.web.sessions import COOKIE, LIFE

router = APIRouter()


@router.get("/sign-in")
def show_sign_in(view: Anybody, next: Annotated[str, Query(max_length=2000)] = "/") -> Response:
    return view.page("sign_in.html", next=own_path(next))


@router.post("/sign-in")
async def sign_in(form: Form, view: Anybody) -> Response:
    cookie, back = view.context.sessions.sign_in(form.text("token")), own_path(form.text("next"))
    if cookie is None:
        note_wrong_token(view.request)
        error = "this is not a token of this service: ask its operator for one"
        return view.page("sign_in.html", status=401, next=back, error=error)
    answer = view.go_to(back)
    answer.set_cookie(
        COOKIE, cookie, max_age=LIFE, httponly=True, samesite="strict", secure=view.request.url.scheme == "https"
    )
    return answer


def note_wrong_token(request: Request) -> None:
    """Counted with those of the API, where the pages are served beside it."""
    if note := request.scope.get("note_wrong_token"):
        note("POST /sign-in")


@router.post("/sign-out")
def sign_out(view: Anybody) -> Response:
    answer = view.go_to("/sign-in")
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
