# SPDX-License-Identifier: Apache-2.0
"""Every page and form × every kind of caller, from the app's own list; and no button that would be refused."""

from typing import Any

import httpx
import pytest

from lakehand.core.access_ports import AuditFilter
from lakehand.domain.access import Caller, Role
from lakehand.domain.tables import Table
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from tests.rest.parts import open_alert
from tests.web.conftest import Serve
from tests.web.test_access import routes
from tests.web.test_pages import add_table, submit

ROOT = Caller(name="root", role=Role.ADMIN)
CALLERS = {
    "viewer": (Role.VIEWER, ""), "operator": (Role.OPERATOR, ""), "own": (Role.OPERATOR, "ann"),
    "other": (Role.OPERATOR, "web"), "admin": (Role.ADMIN, ""),
}  # fmt: skip
ANYBODY = {("GET", "/sign-in"), ("POST", "/sign-in"), ("POST", "/sign-out"), ("GET", "/live")}
# Which callers a page or form is for; all others are for everybody who signed in.
FOR: dict[tuple[str, str], set[str]] = {
    ("GET", "/audit"): {"operator", "own", "other", "admin"},
    ("POST", "/catalogs/{name}/sync"): {"operator", "admin"},
    **{
        ("POST", path): {"operator", "own", "admin"}
        for path in (
            "/tables/{id}/run", "/tables/{id}/pause", "/tables/{id}/resume", "/tables/{id}/evaluate",
            "/tables/{id}/change", "/operations/{id}/cancel", "/operations/{id}/retry", "/alerts/{id}/silence",
        )
    },
}  # fmt: skip
FORMS = {
    "/tables/{id}/run": "action=compaction", "/tables/{id}/change": "owner=ann&queue=q&priority=4&action_types=clean",
    "/alerts/{id}/silence": "hours=1",
}  # fmt: skip


def signed_in(serve: Serve, api: ApiContext, caller: str) -> httpx.Client:
    role, owner = CALLERS[caller]
    _, secret = api.requests.tokens.create(ROOT, caller, role, owner=owner)
    client = serve()
    assert client.post("/sign-in", content=f"token={secret}").status_code == 303
    return client


def given(api: ApiContext, store: SqlStore, path: str) -> tuple[Table, dict[str, Any]]:
    table = add_table(api, owner="ann")
    operation = submit(api, table)
    if path.endswith("/retry"):
        api.operations.cancel(operation.id, by="ann")
    ids = {"operations": operation.id, "alerts": open_alert(store)}
    return table, {"id": ids.get(path.strip("/").partition("/")[0], table.id), "action": "clean", "name": "lake"}


@pytest.mark.parametrize("caller", list(CALLERS))
@pytest.mark.parametrize(("method", "path"), [route for route in routes() if route not in ANYBODY])
def test_a_page_or_form_is_for_whom_it_is_for(
    request: pytest.FixtureRequest, store: SqlStore, method: str, path: str, caller: str
) -> None:
    serve, api = request.getfixturevalue("serve"), request.getfixturevalue("api")
    _, names = given(api, store, path)
    client = signed_in(serve, api, caller)

    answer = client.request(method, path.format(**names), content=FORMS.get(path))

    if caller in FOR.get((method, path), CALLERS):
        assert answer.status_code in (200, 303), answer.text
    else:
        assert answer.status_code == 403
        refused = store.audit.list(AuditFilter(caller=caller), limit=1, cursor=None).items[0].answer
        assert method == "GET" or (refused is not None and refused.code == "forbidden")


@pytest.mark.parametrize(
    ("caller", "has_buttons"), [("viewer", False), ("other", False), ("own", True), ("operator", True), ("admin", True)]
)
def test_pages_show_the_buttons_that_work(
    serve: Serve, api: ApiContext, store: SqlStore, caller: str, has_buttons: bool
) -> None:
    table, _ = given(api, store, "")
    client = signed_in(serve, api, caller)
    for path in (f"/tables/{table.id}", "/operations/1", "/alerts"):
        text = client.get(path).text
        posts = text.count('method="post"') - 1  # the sign-out
        assert (posts > 0) is has_buttons, path
    assert (">Audit<" in client.get("/").text) is (caller != "viewer")
    assert (">Add tables<" in client.get("/").text) is (caller != "viewer")


def test_a_viewer_cannot_have_folders_read(serve: Serve, api: ApiContext) -> None:
    add_table(api)
    client = signed_in(serve, api, "viewer")

    assert client.get("/start", params={"where": "/data"}).status_code == 403


def test_registering_from_the_first_page_is_refused_table_by_table(serve: Serve, api: ApiContext) -> None:
    client = signed_in(serve, api, "viewer")

    answer = client.post("/start", content="table=/data/lake/found")

    assert "this needs an operator" in answer.text
    assert not api.tables.has("/data/lake/found")


def test_the_audit_page_shows_who_did_what(serve: Serve, api: ApiContext, store: SqlStore) -> None:
    table, _ = given(api, store, "")
    client = signed_in(serve, api, "own")
    client.post(f"/tables/{table.id}/pause")

    text = client.get("/audit", params={"action": "table."}).text

    assert "table.pause" in text
    assert "paused False → paused True" in text
    assert "token.create" not in text
    assert "session.start" in client.get("/audit").text
