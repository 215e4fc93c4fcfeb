# SPDX-License-Identifier: Apache-2.0
"""Who may see pages and send forms: sessions by token, and no form that our own pages did not send."""

from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from lakehand.web.access import COOKIE, own_path
from lakehand.web.app import ROUTERS
from tests.kit.polling import wait_for
from tests.rest.parts import with_security
from tests.web.conftest import Serve
from tests.web.test_pages import add_table

TOKENS = {"ann": "a-long-secret", "bob": "another-secret"}


def with_tokens(api: ApiContext) -> dict[str, Any]:
    """What changes in the context of the pages when tokens are asked for."""
    guarded = with_security(api, tokens=TOKENS)
    return {"services": guarded.services}


def test_a_page_without_a_session_leads_to_the_sign_in_and_back(serve: Serve, api: ApiContext) -> None:
    client = serve(**with_tokens(api))
    table = add_table(api)

    answer = client.get(f"/tables/{table.id}", params={"x": "1"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/sign-in?next=%2Ftables%2F{table.id}%3Fx%3D1")
    signed = client.post("/sign-in", content=f"token=a-long-secret&next=%2Ftables%2F{table.id}")

    assert (signed.status_code, signed.headers["location"]) == (303, f"/tables/{table.id}")
    cookie = signed.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "a-long-secret" not in cookie
    assert "ann · admin" in client.get(f"/tables/{table.id}").text


def test_every_page_and_form_asks_for_a_session(serve: Serve, api: ApiContext) -> None:
    """From the app's own list: none is left out."""
    client = serve(**with_tokens(api))
    table = add_table(api)
    seen = 0
    for method, path in routes():
        answer = client.request(method, path.format(id=table.id, action="clean", name="lake"))
        if path in ("/sign-in", "/sign-out") or path.startswith("/static/"):
            continue
        seen += 1
        assert answer.status_code in (303, 401), (method, path)
        assert answer.status_code == 401 or answer.headers["location"].startswith("/sign-in")
    assert seen > 15
    assert api.services.tables.get(table.id) == table


def routes() -> list[tuple[str, str]]:
    known = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    return [(method, route.path) for route in known for method in sorted(route.methods or ())]


def test_a_wrong_token_is_refused_and_counted(serve: Serve, api: ApiContext, store: SqlStore) -> None:
    client = serve(**with_tokens(api))

    answer = client.post("/sign-in", content="token=guessed&next=/")

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "guessed" not in answer.text
    [event] = wait_for(lambda: store.events.list(kind="api.unauthorized").items, "the wrong token to be stored")
    assert "POST /sign-in" in event.event.message


def test_signing_out_ends_the_session(serve: Serve, api: ApiContext) -> None:
    client = serve(**with_tokens(api))
    client.post("/sign-in", content="token=another-secret")
    assert client.get("/tables").status_code == 200

    client.post("/sign-out")

    assert client.get("/tables").status_code == 303


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_form_of_another_site_is_refused(client: httpx.Client, api: ApiContext, site: str) -> None:
    table = add_table(api)

    answer = client.post(
        f"/tables/{table.id}/pause", headers={"Origin": "http://attacker.example", "Sec-Fetch-Site": site}
    )

    assert answer.status_code == 403
    assert not api.services.tables.get(table.id).paused


def test_a_form_without_an_origin_is_refused(client: httpx.Client, api: ApiContext) -> None:
    table = add_table(api)
    del client.headers["Origin"]

    answer = client.post(f"/tables/{table.id}/pause")

    assert answer.status_code == 403
    assert "was not sent by a page of this service" in answer.json()["error"]["message"]
    assert not api.services.tables.get(table.id).paused


def test_a_form_is_no_way_into_the_api(client: httpx.Client, api: ApiContext) -> None:
    table = add_table(api)

    assert client.post(f"/api/v1/tables/{table.id}/pause").status_code == 415
    assert not api.services.tables.get(table.id).paused


@pytest.mark.parametrize("cookie", ["", "a", "a.b", "a.b.c", "!.1.x", "YW5u..", "YW5u.1.\u00e9", "." * 1000])
def test_a_cookie_that_is_none_of_ours_is_refused(api: ApiContext, cookie: str) -> None:
    assert with_tokens(api)["services"].access.session(cookie) is None


@pytest.mark.parametrize(
    "path",
    ["https://attacker.example", "//attacker.example", "/\\attacker.example", "javascript:alert(1)", "", "/a\nb"],
)
def test_the_sign_in_leads_to_no_other_site(path: str) -> None:
    assert own_path(path) == "/"


def test_the_cookie_has_a_name_of_ours(serve: Serve, api: ApiContext) -> None:
    client = serve(**with_tokens(api))
    client.post("/sign-in", content="token=a-long-secret")

    assert client.cookies.get(COOKIE)
