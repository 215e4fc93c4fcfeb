# SPDX-License-Identifier: Apache-2.0
"""What a person does with the dashboard of a service that has an engine, from the first page on."""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import small_tables
from tests.browser.visitor import Visitor, visit
from tests.e2e.stopping import PLUGINS, install_stops
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
SLOW = 240_000  # milliseconds: the driver starts first
MONTH = 30 * 86400


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The first job of a table waits until it is canceled, unless the table has a file here."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("STOP", "canceled")
        yield install_stops(tmp_path_factory.mktemp("stops"), environment)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One table with many small files, a healthy one, and one that cannot be read."""
    folder = tmp_path_factory.mktemp("lake")
    small_tables.delta(folder / "clicks", commits=30)
    small_tables.delta(folder / "customers", commits=2)
    small_tables.broken(folder / "broken")
    return folder


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, lake: Path, marks: Path) -> Iterator[RunningService]:
    for name in ("clicks", "customers", "returns"):
        (marks / name).touch()
    started = RunningService(tmp_path_factory.mktemp("service"), lake, plugins=PLUGINS)
    try:
        yield started.start()
    finally:
        started.end()


@pytest.fixture
def visitor(browser: Browser, service: RunningService) -> Iterator[Visitor]:
    with visit(browser, service.url) as one:
        yield one


def stay(page: Page) -> None:
    """From now on the page must not be loaded again."""
    page.evaluate("window.isSamePage = true")


def assert_same(page: Page) -> None:
    assert page.evaluate("window.isSamePage === true"), "the page was loaded again"


def test_tables_are_found_registered_and_become_healthy_before_ones_eyes(
    visitor: Visitor, service: RunningService, lake: Path
) -> None:
    page = visitor.go("/")
    expect(page).to_have_url(f"{service.url}/start")
    page.get_by_label("a folder, a bucket or a catalog").fill(str(lake))
    page.get_by_role("button", name="find tables", exact=True).click()
    expect(page.get_by_role("row", name=re.compile("clicks"))).to_contain_text("optimize")
    expect(page.get_by_role("row", name=re.compile("broken"))).to_contain_text("cannot be read")
    page.get_by_role("button", name="add these tables").click()
    expect(page.locator("h1")).to_have_text("2 of 2 tables are registered")
    page.get_by_role("link", name="to the fleet").click()
    expect(page.locator("h1")).to_have_text("2 tables")

    press_link(page, "Tables")
    page.get_by_role("link", name="clicks").click()
    stay(page)
    expect(page.locator("#state")).to_contain_text(re.compile("needs work|working"))
    optimize = page.locator("#table-operations tr", has_text="optimize").first
    expect(optimize).to_contain_text(re.compile("pending|submitted|running"))
    expect(page.locator("#numbers dd").first).to_have_text("30")
    expect(optimize).to_contain_text("succeeded", timeout=SLOW)
    expect(page.locator("#state")).to_contain_text("healthy", timeout=SLOW)
    expect(page.locator("#numbers dd").first).to_have_text("1", timeout=SLOW)
    assert_same(page)


def press_link(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True).click()


def remove_long_ago(path: Path) -> Path:
    """A file that a commit removed a month ago, and that readers of old versions no longer need."""
    month_ago, log = int(time.time()) - MONTH, path / "_delta_log"
    file = path / "part-00000-removed-long-ago.parquet"
    file.write_bytes(b"old rows")
    removed = {"path": file.name, "deletionTimestamp": month_ago * 1000, "dataChange": True, "size": 8}
    (log / f"{len(list(log.glob('*.json'))):020d}.json").write_text(json.dumps({"remove": removed}) + "\n")
    for one in (file, *log.iterdir()):
        os.utime(one, (month_ago, month_ago))
    return file


def test_a_vacuum_shows_what_it_would_delete_before_it_deletes(
    visitor: Visitor, service: RunningService, lake: Path
) -> None:
    path = small_tables.delta(lake / "returns", commits=12)
    file = remove_long_ago(path)
    never_by_itself = {"delta.vacuum.min-files": "1000"}
    number = service.add_table(path, "vacuum", format="delta", properties=never_by_itself)
    page = visitor.go(f"/tables/{number}")
    page.get_by_role("row", name=re.compile("^vacuum")).get_by_role("link", name="run …").click()
    expect(page).to_have_url(f"{service.url}/tables/{number}/run/vacuum")
    page.get_by_role("button", name="dry run").click()
    stay(page)
    expect(page.locator(".head")).to_contain_text("a dry run")
    expect(page.locator("#status")).to_contain_text("succeeded", timeout=SLOW)
    page.locator("#would-delete summary").click()
    expect(page.locator("#would-delete pre")).to_contain_text(file.name)
    assert_same(page)
    assert file.exists()

    visitor.go(f"/tables/{number}/run/vacuum")
    expect(page.locator("#dry-run")).to_contain_text("It would delete 1 file")
    page.get_by_role("button", name="run now").click()
    expect(page.locator("#status")).to_contain_text("succeeded", timeout=SLOW)
    assert not file.exists()


def test_a_running_operation_is_canceled_and_retried(
    visitor: Visitor, service: RunningService, lake: Path, marks: Path
) -> None:
    stuck = small_tables.delta(lake / "stuck", commits=30)
    number = service.add_table(stuck, "optimize", format="delta")
    page = visitor.go(f"/tables/{number}")
    wait_for((marks / "stuck").exists, "the job to wait")
    page.locator("#table-operations tr[data-href] a").first.click()
    stay(page)
    expect(page.locator("#status")).to_contain_text("running", timeout=SLOW)
    expect(page.locator("#progress progress")).to_be_visible()
    expect(page.locator("#log pre")).to_contain_text("stuck")
    assert_same(page)

    page.get_by_role("button", name="cancel").click()
    stay(page)
    expect(page.locator("#status")).to_contain_text("canceled", timeout=SLOW)
    expect(page.get_by_role("button", name="cancel")).to_have_count(0)
    assert_same(page)

    page.get_by_role("button", name="retry").click()
    stay(page)
    expect(page.locator("#status")).to_contain_text("succeeded", timeout=SLOW)
    expect(page.locator("#attempts tbody tr")).to_have_count(2)
    expect(page.locator("#operation-events")).to_contain_text("canceled")
    assert_same(page)


def test_a_table_is_paused_resumed_and_changed(visitor: Visitor, service: RunningService, lake: Path) -> None:
    path = small_tables.delta(lake / "loyalty", commits=2)
    number = service.add_table(path, "optimize", "purge", format="delta")
    page = visitor.go(f"/tables/{number}")
    page.get_by_role("button", name="pause").click()
    expect(page.locator("#state")).to_contain_text("paused")
    page.get_by_role("button", name="resume").click()
    expect(page.get_by_role("button", name="pause")).to_be_visible()
    expect(page.locator("#state")).not_to_contain_text("paused")

    page.get_by_label("owner").fill("sales")
    page.get_by_label("priority").fill("7")
    page.get_by_role("checkbox", name="purge").uncheck()
    page.get_by_role("button", name="save").click()
    expect(page.get_by_label("owner")).to_have_value("sales")
    expect(page.get_by_role("row", name=re.compile("^purge"))).to_contain_text("(off)")
    table = service.get(f"/api/v1/tables/{number}")
    assert (table["owner"], table["priority"], table["paused"]) == ("sales", 7, False)
    assert "purge" not in table["action_types"]
    assert "optimize" in table["action_types"]
