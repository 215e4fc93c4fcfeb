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

from tests.kit.service import RunningService
from tests.web import fleet_data
from tests.web.browser import (
    PHONE,
    Visit,
    accessibility_problems,
    has_charts,
    sideways_overflow,
    take_picture,
    visit,
    wait_for_charts,
)
from tests.web.conftest import NO_ENGINE

pytestmark = pytest.mark.long
FAILED, WORKING, UNREADABLE = fleet_data.FAILED, fleet_data.WORKING, fleet_data.UNREADABLE
SUCCEEDED_OPERATION, FAILED_OPERATION = 1, fleet_data.DAYS + 1
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
    "events": "/events",
    "service": "/service",
    "start": "/start",
    "problem": "/tables/987654",
}
PICTURES = {
    "fleet", "tables", "table", "run", "operations", "operation-failed", "catalogs", "events", "service", "problem",
}  # fmt: skip
NOT_FOUND = r"status of 404 .*/tables/987654"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, lake: Path) -> Iterator[RunningService]:
    """An empty service that asks for a token."""
    service = RunningService(tmp_path_factory.mktemp("guarded"), lake, tokens=f"alice={TOKEN}", **NO_ENGINE)
    try:
        yield service.start()
    finally:
        service.end()


def sign_in(visitor: Visit, token: str = TOKEN) -> None:
    visitor.page.get_by_label("token").fill(token)
    visitor.page.get_by_role("button", name="sign in").click()


def problems_in_both_themes(page: Page) -> list[str]:
    """Only colours differ in the dark theme."""
    found = accessibility_problems(page)
    page.emulate_media(color_scheme="dark")
    found += [f"dark: {problem}" for problem in accessibility_problems(page, "color-contrast")]
    page.emulate_media(color_scheme="light")
    return found


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_in_both_themes_and_fits_a_phone(visitor: Visit, lake: Path, name: str) -> None:
    page = visitor.go(PAGES[name])
    wait_for_charts(page)
    assert problems_in_both_themes(page) == []
    if name in PICTURES:
        take_picture(page, name, lake)
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert sideways_overflow(page) == []
    if name == "problem":
        visitor.expect_errors(NOT_FOUND)
