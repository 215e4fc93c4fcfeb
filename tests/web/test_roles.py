# SPDX-License-Identifier: Apache-2.0
"""Every page and form × every kind of caller, from the app's own list; and no button that would be refused."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx
import pytest

from lakehand.core.ports import AuditFilter
from lakehand.domain.access import Role
from lakehand.domain.tables import Table
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from lakehand.web import PageContext
from tests.kit.service import TLS
from tests.rest.parts import made_token, open_alert, serving
from tests.web.conftest import browser_headers
from tests.web.test_access import routes
from tests.web.test_pages import add_table, submit

NUMBERS = count(1)
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


@dataclass(frozen=True)
class Guarded:
    """A service with somebody of each kind signed in."""

    api: ApiContext
    store: SqlStore
    clients: dict[str, httpx.Client]


@pytest.fixture
def guarded(store: SqlStore, api: ApiContext, pages: PageContext) -> Iterator[Guarded]:
    secrets = {name: made_token(api, name, role, owner=owner).secret for name, (role, owner) in CALLERS.items()}
    with serving(api, pages=pages) as first, ExitStack() as stack:
        clients = {
            name: stack.enter_context(httpx.Client(base_url=first.base_url, timeout=30, verify=TLS)) for name in CALLERS
        }
        for name, client in clients.items():
            client.headers.update(browser_headers(client))
            assert client.post("/sign-in", content=f"token={secrets[name]}").status_code == 303
        yield Guarded(api, store, clients)
        pages.live.feed.close()


def given(guarded: Guarded, path: str) -> tuple[Table, dict[str, Any]]:
    """Something real to act upon, made for this request."""
    number = next(NUMBERS)
    table = add_table(guarded.api, f"/data/t{number}", owner="ann")
    operation = submit(guarded.api, table)
    if path.endswith("/retry"):
        guarded.api.services.operations.end(operation.id, by="ann")
    ids = {"operations": operation.id, "alerts": open_alert(guarded.store, f"failed:{number}")}
    return table, {"id": ids.get(path.strip("/").partition("/")[0], table.id), "action": "clean", "name": "lake"}


@pytest.mark.parametrize(("method", "path"), [route for route in routes() if route not in ANYBODY])
def test_a_page_or_form_is_for_whom_it_is_for(guarded: Guarded, method: str, path: str) -> None:
    answers = {caller: answer_to(guarded, caller, method, path) for caller in CALLERS}

    refused = dict.fromkeys(CALLERS, "403" if method == "GET" else "403 forbidden")
    assert answers == refused | dict.fromkeys(FOR.get((method, path), CALLERS), "allowed")


def answer_to(guarded: Guarded, caller: str, method: str, path: str) -> str:
    """Of a form that is refused, also what the audit trail says."""
    _, names = given(guarded, path)
    answer = guarded.clients[caller].request(method, path.format(**names), content=FORMS.get(path))
    if answer.status_code in (200, 303):
        return "allowed"
    [entry] = guarded.store.audit.list(AuditFilter(caller=caller), limit=1, cursor=None).items
    code = entry.answer.code if entry.answer is not None else "unanswered"
    return f"{answer.status_code} {code}" if method == "POST" else f"{answer.status_code}"


@pytest.mark.parametrize(
    ("caller", "has_buttons"), [("viewer", False), ("other", False), ("own", True), ("operator", True), ("admin", True)]
)
def test_pages_show_the_buttons_that_work(guarded: Guarded, caller: str, has_buttons: bool) -> None:
    table, names = given(guarded, "/operations")
    client = guarded.clients[caller]
    for path in (f"/tables/{table.id}", f"/operations/{names['id']}", "/alerts"):
        text = client.get(path).text
        posts = text.count('method="post"') - 1  # the sign-out
        assert (posts > 0) is has_buttons, path
    assert (">Audit<" in client.get("/").text) is (caller != "viewer")
    assert (">Add tables<" in client.get("/").text) is (caller != "viewer")


def test_a_viewer_cannot_have_folders_read(guarded: Guarded) -> None:
    assert guarded.clients["viewer"].get("/start", params={"where": "/data"}).status_code == 403


def test_registering_from_the_first_page_is_refused_table_by_table(guarded: Guarded) -> None:
    answer = guarded.clients["viewer"].post("/start", content="table=/data/lake/found")

    assert "this needs an operator" in answer.text
    assert not guarded.api.services.tables.has("/data/lake/found")


def test_the_audit_page_shows_who_did_what(guarded: Guarded) -> None:
    table, _ = given(guarded, "")
    client = guarded.clients["own"]
    client.post(f"/tables/{table.id}/pause")

    text = client.get("/audit", params={"action": "table."}).text

    assert "table.pause" in text
    assert "paused False → paused True" in text
    assert "token.create" not in text
    assert "session.start" in client.get("/audit", params={"action": "session."}).text
