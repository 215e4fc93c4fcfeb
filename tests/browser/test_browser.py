# SPDX-License-Identifier: Apache-2.0
"""The pages of the dashboard in a real browser. Nothing here needs an engine."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import fleet_data
from tests.browser.conftest import NO_ENGINE
from tests.browser.visitor import (
    PHONE,
    WIDE,
    Visitor,
    accessibility_problems,
    sideways_overflow,
    take_picture,
    visit,
    wait_for_charts,
)
from tests.kit.service import RunningService
from tests.kit.tiers import long_values

pytestmark = pytest.mark.server
FAILED, WORKING, UNREADABLE = fleet_data.FAILED, fleet_data.WORKING, fleet_data.UNREADABLE
SUCCEEDED_OPERATION, FAILED_OPERATION = 1, fleet_data.FAILED_OPERATION
TOKEN = "0d8f1c52b7a94e63"
PAGES = {
    "fleet": "/",
    "tables": "/tables",
    "tables-of-a-search": "/tables?search=nothing-has-this-name",
    "table": f"/tables/{WORKING}",
    "table-failed": f"/tables/{FAILED}",
    "table-unreadable": f"/tables/{UNREADABLE}",
    "table-new": f"/tables/{fleet_data.FLEET[-1].id}",
    "run": f"/tables/{WORKING}/run/vacuum",
    "operations": "/operations",
    "operations-of-a-table": f"/operations?table={FAILED}&status=failed",
    "operation": f"/operations/{SUCCEEDED_OPERATION}",
    "operation-failed": f"/operations/{FAILED_OPERATION}",
    "catalogs": "/catalogs",
    "alerts": "/alerts",
    "events": "/events",
    "audit": "/audit",
    "service": "/service",
    "start": "/start",
    "problem": "/tables/987654",
}
PICTURES = {
    "fleet", "tables", "table", "run", "operations", "operation-failed", "catalogs", "alerts", "events", "audit",
    "service", "problem",
}  # fmt: skip
# In CI or by name the rest, too.
ALWAYS = ("tables", "table", "run", "operation-failed", "problem")
NOT_FOUND = r"status of 404 .*/tables/987654"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, lake: Path) -> Iterator[RunningService]:
    """An empty service that asks for a token."""
    service = RunningService(tmp_path_factory.mktemp("guarded"), lake, tokens=f"alice={TOKEN}", **NO_ENGINE)
    try:
        yield service.start()
    finally:
        service.end()


def sign_in(visitor: Visitor, token: str = TOKEN) -> None:
    visitor.page.get_by_label("token").fill(token)
    visitor.page.get_by_role("button", name="sign in").click()


def problems_in_both_themes(page: Page) -> list[str]:
    """Only colours differ in the dark theme."""
    found = accessibility_problems(page)
    page.emulate_media(color_scheme="dark")
    found += [f"dark: {problem}" for problem in accessibility_problems(page, "color-contrast")]
    page.emulate_media(color_scheme="light")
    return found


@pytest.mark.parametrize("name", [*ALWAYS, *long_values(*(name for name in PAGES if name not in ALWAYS))])
def test_a_page_is_accessible_in_both_themes_and_fits_a_phone(visitor: Visitor, lake: Path, name: str) -> None:
    page = visitor.go(PAGES[name])
    wait_for_charts(page)
    assert problems_in_both_themes(page) == []
    if name in PICTURES:
        take_picture(page, name, lake)
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert sideways_overflow(page) == []
    if name == "problem":
        visitor.expect_errors(NOT_FOUND)


@pytest.mark.long
def test_the_first_pages_of_an_empty_service_are_accessible(
    browser: Browser, guarded: RunningService, lake: Path
) -> None:
    with visit(browser, guarded.url) as visitor:
        page = visitor.go("/")
        for name in ("sign-in", "start", "found", "registered"):
            assert problems_in_both_themes(page) == [], name
            take_picture(page, name, lake)
            page.set_viewport_size(PHONE)  # type: ignore[arg-type]
            assert sideways_overflow(page) == [], name
            page.set_viewport_size(WIDE)  # type: ignore[arg-type]
            go_on(visitor, name, lake)
        expect(page).to_have_url(f"{guarded.url}/")
        expect(page.locator("h1")).to_have_text("4 tables")


def go_on(visitor: Visitor, name: str, lake: Path) -> None:
    """From one of the first pages to the next one, as a person does."""
    page = visitor.page
    if name == "sign-in":
        sign_in(visitor)
        expect(page).to_have_url(f"{visitor.url}/start")
    elif name == "start":
        page.get_by_label("a folder, a bucket or a catalog").fill(str(lake))
        page.get_by_role("button", name="find tables", exact=True).click()
        expect(page.get_by_role("row", name=re.compile("broken"))).to_contain_text("cannot be read")
        page.wait_for_load_state("load")  # the page arrives while tables are still being found
    elif name == "found":
        expect(page.get_by_role("checkbox")).to_have_count(4)
        page.get_by_role("button", name="add these tables").click()
        expect(page.locator("h1")).to_have_text("4 of 4 tables are registered")
    else:
        page.get_by_role("link", name="to the fleet").click()


def test_a_session_begins_with_a_token_and_ends_with_the_sign_out(browser: Browser, guarded: RunningService) -> None:
    with visit(browser, guarded.url) as visitor:
        page = visitor.go("/tables?search=orders")
        expect(page).to_have_url(f"{guarded.url}/sign-in?next=%2Ftables%3Fsearch%3Dorders")
        sign_in(visitor, "a-guess-of-sixteen-characters")
        expect(page.get_by_role("alert")).to_contain_text("not a token of this service")
        assert visitor.context.cookies() == []
        visitor.expect_errors("status of 401 .*/sign-in")

        sign_in(visitor)
        expect(page).to_have_url(f"{guarded.url}/tables?search=orders")
        expect(page.locator("header")).to_contain_text("alice")
        [cookie] = visitor.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert page.evaluate("document.cookie") == ""
        assert TOKEN not in cookie["value"]

        page.get_by_role("button", name="sign out").click()
        expect(page).to_have_url(f"{guarded.url}/sign-in")
        assert visitor.context.cookies() == []
        visitor.go("/events")
        expect(page.locator("h1")).to_have_text("Sign in")


def test_a_sign_in_leads_to_no_other_site(browser: Browser, guarded: RunningService) -> None:
    with visit(browser, guarded.url) as visitor:
        page = visitor.go("/sign-in?next=//elsewhere.example/")
        sign_in(visitor)
        page.wait_for_url(lambda url: "sign-in" not in url)
        assert page.url.startswith(guarded.url)


FORMS = (
    "/tables/1/run", "/tables/1/pause", "/tables/1/resume", "/tables/1/evaluate", "/tables/1/change",
    "/operations/1/cancel", "/operations/1/retry", "/catalogs/lake/sync", "/start",
)  # fmt: skip


def test_without_a_session_every_page_leads_to_the_sign_in_and_every_form_is_refused(
    browser: Browser, guarded: RunningService
) -> None:
    with visit(browser, guarded.url) as visitor:
        for path in PAGES.values():
            expect(visitor.go(path).locator("h1")).to_have_text("Sign in")
        answers = visitor.page.evaluate(
            "(paths) => Promise.all(paths.map((path) => fetch(path, { method: 'POST' }).then((one) => one.status)))",
            [*FORMS],
        )
        assert answers == [401] * len(FORMS)
        assert visitor.page.evaluate("fetch('/live').then((one) => one.status)") == 401
        visitor.expect_errors("status of 401")


class ForeignPage(BaseHTTPRequestHandler):
    """A page of another site that sends a form to the service as soon as somebody clicks."""

    target = ""

    def do_GET(self) -> None:
        page = f'<title>win</title><form method="post" action="{self.target}"><button>win a prize</button></form>'
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, format: str, *values: Any) -> None:
        pass


@contextmanager
def foreign_site(target: str) -> Iterator[str]:
    handler = type("Page", (ForeignPage,), {"target": target})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_form_on_a_page_of_another_site_is_refused_and_changes_nothing(
    browser: Browser, fleet: RunningService
) -> None:
    before = fleet.get(f"/api/v1/tables/{FAILED}")
    with foreign_site(f"{fleet.url}/tables/{FAILED}/pause") as site, visit(browser, fleet.url) as visitor:
        page = visitor.page
        page.goto(site)
        with page.expect_response(f"**/tables/{FAILED}/pause") as answer:
            page.get_by_role("button").click()
        assert answer.value.status == 403
        visitor.expect_errors("status of 403")
        visitor.foreign = [url for url in visitor.foreign if not url.startswith(site)]
    assert fleet.get(f"/api/v1/tables/{FAILED}") == before
    assert not before["paused"]


def test_pages_are_read_without_javascript(browser: Browser, fleet: RunningService) -> None:
    with visit(browser, fleet.url, java_script_enabled=False) as visitor:
        page = visitor.go("/")
        expect(page.locator("h1")).to_have_text("12 tables")
        expect(page.locator("#states")).to_contain_text("1 failed")
        expect(page.locator("#chart-debt tbody tr").first).to_be_visible()
        expect(page.locator("#chart-operations tbody tr").first).to_be_visible()

        visitor.go("/tables?search=page_views")
        expect(page.get_by_role("row", name=re.compile("raw.page_views"))).to_contain_text("working")
        page.get_by_role("link", name="raw.page_views").click()
        expect(page.locator("#state")).to_contain_text("working")
        expect(page.locator("#chart-files tbody tr").first).to_be_visible()
        expect(page.locator("#chart-sizes tbody")).to_contain_text("128-512 MB")
        expect(page.locator("#numbers")).to_contain_text("small files")

        visitor.go(f"/operations/{FAILED_OPERATION}")
        expect(page.locator("#attempts tbody tr")).to_have_count(3)
        expect(page.locator("svg.attempts")).to_be_visible()
        expect(page.locator("#progress")).to_contain_text("the lock provider is not reachable")
        assert page.locator("button[data-theme-switch]:visible").count() == 0


def test_forms_work_without_javascript(browser: Browser, fleet: RunningService) -> None:
    paused = next(one.id for one in fleet_data.FLEET if one.state == "paused")
    with visit(browser, fleet.url, java_script_enabled=False) as visitor:
        page = visitor.go(f"/tables/{paused}")
        page.get_by_role("button", name="resume").click()
        expect(page.locator("#state")).to_contain_text("healthy")
        page.get_by_role("button", name="pause").click()
        expect(page.locator("#state")).to_contain_text("paused")


def test_a_refused_change_is_shown_on_the_page(visitor: Visitor) -> None:
    page = visitor.go(f"/tables/{FAILED}")
    for box in page.locator("input[name=action_types]").all():
        box.uncheck()
    page.get_by_role("button", name="save").click()
    expect(page.get_by_role("alert")).to_contain_text("choose at least one action")
    expect(page).to_have_url(f"{visitor.url}/tables/{FAILED}")
    expect(page.locator("#live-state")).to_have_text("live")
    visitor.expect_errors("status of 422")


def test_the_keyboard_reaches_pages_and_rows(visitor: Visitor) -> None:
    page = visitor.go("/")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox").first).to_be_focused()
    page.keyboard.type("g t sales")  # typed, not obeyed
    page.keyboard.press("Control+A")
    page.keyboard.type("finance")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{visitor.url}/tables?search=finance")
    expect(page.locator("#tables tbody tr")).to_have_count(2)

    press(page, "g", "f")
    expect(page.locator("h1")).to_have_text("12 tables")
    press(page, "g", "o")
    expect(page.locator("h1")).to_have_text("Operations")
    press(page, "g", "t")
    expect(page.locator("h1")).to_have_text("Tables")

    rows = page.locator("tr[data-href]")
    press(page, "j", "j", "k")
    expect(rows.nth(0)).to_be_focused()
    press(page, "j")
    expect(rows.nth(1)).to_be_focused()
    wanted = str(rows.nth(1).get_attribute("data-href"))
    press(page, "Enter")
    expect(page).to_have_url(visitor.url + wanted)

    press(page, "?")
    expect(page.get_by_role("dialog")).to_contain_text("search tables")
    press(page, "Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def press(page: Page, *keys: str) -> None:
    """Scripts listen once the page is loaded."""
    page.wait_for_load_state("load")
    for key in keys:
        page.keyboard.press(key)


BACKGROUND = "getComputedStyle(document.body).backgroundColor"
DRAWN_TEXT = "document.querySelector('#chart-debt .plot text').style.fill"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 26)"


def test_the_theme_follows_the_system_and_a_click_is_remembered(visitor: Visitor, lake: Path) -> None:
    page = visitor.go("/")
    wait_for_charts(page)
    in_light = page.evaluate(DRAWN_TEXT)
    assert page.evaluate(BACKGROUND) == LIGHT
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(BACKGROUND) == DARK
    page.wait_for_function(f"(before) => {DRAWN_TEXT} !== before", arg=in_light)
    take_picture(page, "fleet-dark", lake)

    visitor.go("/")
    page.get_by_role("button", name="light / dark").click()
    assert page.evaluate(BACKGROUND) == LIGHT
    visitor.go("/events")
    assert page.evaluate(BACKGROUND) == LIGHT
    page.get_by_role("button", name="light / dark").click()
    page.emulate_media(color_scheme="light")
    page.reload()
    assert page.evaluate(BACKGROUND) == DARK


def test_a_change_elsewhere_appears_and_leaves_what_a_reader_opened(visitor: Visitor, fleet: RunningService) -> None:
    number = next(one.id for one in fleet_data.FLEET if one.state == "healthy")
    page = visitor.go(f"/tables/{number}")
    wait_for_charts(page)
    expect(page.locator("#live-state")).to_have_text("live")
    page.evaluate("window.isSamePage = true")
    page.locator("#chart-files summary").click()
    page.get_by_label("priority").fill("77")
    button = page.get_by_role("button", name="evaluate now")
    button.focus()

    fleet_data.inspect_again(fleet.home / "lakehand.db", number, files=4711)
    httpx.patch(f"{fleet.url}/api/v1/tables/{number}", json={"paused": True}).raise_for_status()

    expect(page.locator("#state")).to_contain_text("paused")
    expect(page.locator("#table-events")).to_contain_text("table.changed")
    expect(page.locator("#chart-files-table tbody tr").first).to_contain_text("4\u202f711")
    wait_for_charts(page)
    expect(page.locator("#chart-files-table tbody tr").first).to_be_visible()
    expect(page.get_by_label("priority")).to_have_value("77")
    expect(button).to_be_focused()
    assert page.evaluate("window.isSamePage")
    httpx.patch(f"{fleet.url}/api/v1/tables/{number}", json={"paused": False}).raise_for_status()
    expect(page.locator("#state")).to_contain_text("healthy")


def test_a_page_says_that_it_is_not_live_and_connects_again(visitor: Visitor) -> None:
    visitor.context.route("**/live?*", lambda route: route.fulfill(status=503))
    page = visitor.go("/events")
    expect(page.locator("#live-state")).to_have_text("not connected: trying again")
    visitor.context.unroute("**/live?*")
    expect(page.locator("#live-state")).to_have_text("live", timeout=20_000)
    visitor.expect_errors("status of 503")
