# SPDX-License-Identifier: Apache-2.0
"""A browser, and a service with a fleet that has a history."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests import small_tables
from tests.browser import fleet_data
from tests.browser.visitor import BrowserMissing, Visitor, launch, visit
from tests.kit.service import RunningService

expect.set_options(timeout=20_000)  # milliseconds: a busy machine is slow, not wrong
NO_ENGINE = {"spark__master": "no-such-master"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed after the module, as other tests start event loops, and Playwright keeps its own one running till then.

    A missing browser is a visible skip on a developer's machine and a failure where all must be tested.
    """
    with sync_playwright() as playwright:
        try:
            started = launch(playwright)
        except BrowserMissing as missing:
            if os.environ.get("CI") == "true":
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        yield started
        started.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of three formats, and one that cannot be read."""
    folder = tmp_path_factory.mktemp("lake")
    small_tables.delta(folder / "raw" / "events", commits=30)
    small_tables.delta(folder / "sales" / "customers", commits=2)
    small_tables.lance(folder / "ml" / "images", commits=12)
    small_tables.hudi(folder / "sales" / "orders_v9")
    small_tables.broken(folder / "raw" / "broken")
    return folder


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, lake: Path) -> Iterator[RunningService]:
    """A service whose fleet has two weeks of history, and no engine: nothing changes by itself."""
    home = tmp_path_factory.mktemp("fleet")
    home.chmod(0o700)
    fleet_data.fill(home / "lakehand.db")
    service = RunningService(home, lake, **NO_ENGINE)
    try:
        yield service.start()
    finally:
        service.end()


@pytest.fixture
def visitor(browser: Browser, fleet: RunningService) -> Iterator[Visitor]:
    with visit(browser, fleet.url) as one:
        yield one
