# SPDX-License-Identifier: Apache-2.0
"""Signing in with each role: what each sees, and what it may do."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import NO_ENGINE
from tests.browser.visitor import Visitor, accessibility_problems, visit
from tests.kit.service import RunningService
from tests.kit.tiers import long_values

pytestmark = pytest.mark.server
ADMIN = "7c1e90b4a35d4f28"
ROLES = {"vera": ("viewer", ""), "otto": ("operator", ""), "sue": ("operator", "sales"), "webb": ("operator", "web")}


class Guarded:
    """A service with a table of sales, and a token for each role."""

    def __init__(self, service: RunningService, lake: Path) -> None:
        self.service = service
        self.api = httpx.Client(
            base_url=service.url, headers={"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        )
        table = {"location": str(lake / "raw" / "events"), "owner": "sales"}
        self.table = f"/tables/{self.api.post('/api/v1/tables', json=table).json()['id']}"
        self.tokens = {"ada": ADMIN} | {
            name: self.api.post("/api/v1/tokens", json={"name": name, "role": role, "owner": owner}).json()["secret"]
            for name, (role, owner) in ROLES.items()
        }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, lake: Path) -> Iterator[Guarded]:
    service = RunningService(tmp_path_factory.mktemp("roles"), lake, tokens=f"ada={ADMIN}", **NO_ENGINE)
    try:
        made = Guarded(service.start(), lake)
        yield made
        made.api.close()
    finally:
        service.end()


@pytest.fixture
def visitor(browser: Browser, guarded: Guarded) -> Iterator[Visitor]:
    with visit(browser, guarded.service.url) as one:
        yield one


def sign_in(visitor: Visitor, guarded: Guarded, name: str) -> Page:
    page = visitor.go(guarded.table)
    page.get_by_label("token").fill(guarded.tokens[name])
    page.get_by_role("button", name="sign in").click()
    expect(page).to_have_url(f"{guarded.service.url}{guarded.table}")
    expect(page.locator("header")).to_contain_text(name)
    return page


@pytest.mark.parametrize("name", ["vera", *long_values("webb")])
def test_who_may_not_change_a_table_sees_it_without_buttons(visitor: Visitor, guarded: Guarded, name: str) -> None:
    page = sign_in(visitor, guarded, name)

    expect(page.get_by_role("button", name="pause")).to_have_count(0)
    expect(page.get_by_role("button", name="save")).to_have_count(0)
    expect(page.locator("#actions")).to_contain_text("optimize")
    assert accessibility_problems(page) == []
    answer = page.evaluate(f"fetch('{guarded.table}/pause', {{ method: 'POST' }}).then((one) => one.status)")
    assert answer == 403
    visitor.expect_errors("status of 403")
    assert guarded.api.get(f"/api/v1{guarded.table}").json()["paused"] is False


def test_a_viewer_has_no_way_to_the_audit_trail(visitor: Visitor, guarded: Guarded) -> None:
    page = sign_in(visitor, guarded, "vera")

    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    visitor.go("/audit")
    expect(page.get_by_role("alert")).to_contain_text("this needs an operator")
    visitor.expect_errors("status of 403")


@pytest.mark.parametrize("name", ["sue", *long_values("otto", "ada")])
def test_who_may_change_a_table_does_and_the_audit_trail_says_so(visitor: Visitor, guarded: Guarded, name: str) -> None:
    page = sign_in(visitor, guarded, name)
    page.get_by_role("button", name="pause").click()
    expect(page.locator("#state")).to_contain_text("paused")
    page.get_by_role("button", name="resume").click()
    expect(page.get_by_role("button", name="pause")).to_be_visible()

    page.get_by_role("link", name="Audit").click()
    row = page.get_by_role("row", name="table.resume").first
    expect(row).to_contain_text(name)
    expect(row).to_contain_text("dashboard")
    expect(row).to_contain_text("paused True → paused False")
    expect(row).to_contain_text("ok")


def test_a_revoked_token_ends_the_session_at_the_next_page(visitor: Visitor, guarded: Guarded) -> None:
    made = guarded.api.post("/api/v1/tokens", json={"name": "tess", "role": "viewer"}).json()
    guarded.tokens["tess"] = made["secret"]
    page = sign_in(visitor, guarded, "tess")

    guarded.api.delete(f"/api/v1/tokens/{made['id']}")

    visitor.go("/tables")
    expect(page.locator("h1")).to_have_text("Sign in")
