# SPDX-License-Identifier: Apache-2.0
"""Open pages are told what changed: each its own, soon, and nothing when nothing happened."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from queue import Empty, Queue

import httpx
import pytest

from lakehand.domain.access import Caller, Role
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from lakehand.web import PageContext
from lakehand.web.live import MOST_WATCHERS, Topic
from tests.kit.polling import wait_for
from tests.rest.parts import with_security
from tests.web.conftest import Serve, pages_over
from tests.web.test_pages import add_table, submit

ROOT = Caller(name="root", role=Role.ADMIN)


@contextmanager
def watching(client: httpx.Client, about: str) -> Iterator["Queue[str]"]:
    """The lines of a stream, read by a thread."""
    lines: Queue[str] = Queue()
    with client.stream("GET", "/live", params={"about": about}, timeout=30) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")

        def read() -> None:
            try:
                for line in answer.iter_lines():
                    lines.put(line)
            except httpx.HTTPError:
                pass

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        assert lines.get(timeout=10) == "retry: 2000"
        yield lines


def news(lines: "Queue[str]") -> bool:
    """Whether a change is told within ten seconds; comments that keep the stream open do not count."""
    ends = time.monotonic() + 10
    try:
        while lines.get(timeout=max(0.0, ends - time.monotonic())) != "event: changed":
            pass
    except Empty:
        return False
    return True


def test_a_page_is_told_of_its_own_table_only(client: httpx.Client, api: ApiContext, pages: PageContext) -> None:
    mine, other = add_table(api), add_table(api, "/data/other")
    with watching(client, f"table:{mine.id}") as lines:
        assert news(lines)  # of the first reading
        with watching(client, "fleet") as everything:
            wait_for(lambda: pages.feed.watchers == 2, "both pages to be watched")
            await_readings(pages, 2)
            api.tables.pause(ROOT, other.id)
            assert news(everything)
        assert "event: changed" not in list(lines.queue)
        api.tables.pause(ROOT, mine.id)
        assert news(lines)


def test_a_page_is_told_of_its_operation(client: httpx.Client, api: ApiContext, pages: PageContext) -> None:
    operation = submit(api, add_table(api))
    with watching(client, f"operation:{operation.id}") as lines:
        assert news(lines)  # of the first reading
        api.operations.end(operation.id, by="ann")
        assert news(lines)


def test_a_change_before_the_first_reading_is_noticed(
    client: httpx.Client, api: ApiContext, pages: PageContext
) -> None:
    table = add_table(api)
    client.get(f"/tables/{table.id}")
    api.tables.pause(ROOT, table.id)  # by another instance, say, before the stream is open
    with watching(client, f"table:{table.id}") as lines:
        assert news(lines)


def test_a_page_that_is_fetched_because_of_a_change_has_it(
    client: httpx.Client, api: ApiContext, pages: PageContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehand.web.page_cache.KEEP", 1000.0)
    table = add_table(api)
    again = partial(client.get, f"/tables/{table.id}", headers={"X-Live": "1"})
    with watching(client, f"table:{table.id}") as lines:
        assert news(lines)
        assert "nothing is started" not in again().text
        api.tables.pause(ROOT, table.id)
        assert news(lines)
        assert "nothing is started" in again().text


def test_a_page_after_a_form_has_what_the_form_changed(
    client: httpx.Client, api: ApiContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehand.web.page_cache.KEEP", 1000.0)
    table = add_table(api)
    again = partial(client.get, f"/tables/{table.id}", headers={"X-Live": "1"})
    assert "nothing is started" not in again().text

    client.post(f"/tables/{table.id}/pause")

    assert "nothing is started" in again().text


def test_nothing_is_read_while_nobody_watches(client: httpx.Client, api: ApiContext, pages: PageContext) -> None:
    with watching(client, "fleet"):
        wait_for(lambda: pages.feed.readings > 1, "a reading")
    wait_for(lambda: pages.feed.watchers == 0, "the page to be gone")
    wait_for(lambda: not pages.feed.is_reading, "the reader to end")


def test_the_end_of_the_service_ends_the_streams(client: httpx.Client, pages: PageContext) -> None:
    with watching(client, "fleet"):
        pages.feed.close()
        wait_for(lambda: pages.feed.watchers == 0, "the stream to end")


def test_a_stream_ends_when_its_token_is_revoked(api: ApiContext, store: SqlStore, serve: Serve) -> None:
    guarded = with_security(api)
    token, secret = guarded.requests.tokens.create(ROOT, "ann", Role.VIEWER)
    pages = pages_over(guarded, store)
    pages.feed.recheck = 0.05
    client = serve(access=pages.access, requests=pages.requests, feed=pages.feed)
    client.post("/sign-in", data={"token": secret})
    with watching(client, "table:1"):
        wait_for(lambda: pages.feed.watchers == 1, "the page to be watched")
        guarded.requests.tokens.revoke(ROOT, token.id)
        wait_for(lambda: pages.feed.watchers == 0, "the stream to end")
        assert client.get("/live").status_code == 401


def test_too_many_open_pages_are_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehand.web.live.MOST_WATCHERS", 0)
    client = serve()

    assert client.get("/live").status_code == 503
    assert MOST_WATCHERS > 100


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("table:7", Topic("table", 7)),
        ("operation:12", Topic("operation", 12)),
        ("fleet", Topic("fleet")),
        ("table:", Topic("fleet")),
        ("table:99999999999999999999", Topic("fleet")),
        ("what:1", Topic("fleet")),
    ],
)
def test_a_topic_is_read_from_the_address(text: str, topic: Topic) -> None:
    assert Topic.read(text) == topic


def await_readings(pages: PageContext, count: int) -> None:
    wanted = pages.feed.readings + count
    wait_for(lambda: pages.feed.readings >= wanted, f"{count} readings")
