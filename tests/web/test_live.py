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

from lakehand.core.feed import Topic
from lakehand.domain.access import Role, TokenId
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from lakehand.web import PageContext
from lakehand.web.live import MOST_WATCHERS, read_topic
from tests.kit.polling import wait_for
from tests.rest.parts import ROOT, made_token, with_security
from tests.web.conftest import Serve, pages_over
from tests.web.test_pages import add_table, submit


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
            wait_for(lambda: pages.live.watchers == 2, "both pages to be watched")
            await_readings(pages, 2)
            api.services.tables.pause(ROOT, other.id)
            assert news(everything)
        assert "event: changed" not in list(lines.queue)
        api.services.tables.pause(ROOT, mine.id)
        assert news(lines)


def test_a_page_is_told_of_its_operation(client: httpx.Client, api: ApiContext, pages: PageContext) -> None:
    operation = submit(api, add_table(api))
    with watching(client, f"operation:{operation.id}") as lines:
        assert news(lines)  # of the first reading
        api.services.operations.end(operation.id, by="ann")
        assert news(lines)


def test_a_change_before_the_first_reading_is_noticed(
    client: httpx.Client, api: ApiContext, pages: PageContext
) -> None:
    table = add_table(api)
    client.get(f"/tables/{table.id}")
    api.services.tables.pause(ROOT, table.id)  # by another instance, say, before the stream is open
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
        api.services.tables.pause(ROOT, table.id)
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
        wait_for(lambda: pages.live.feed.readings > 1, "a reading")
    wait_for(lambda: pages.live.watchers == 0, "the page to be gone")
    wait_for(lambda: not pages.live.feed.is_reading, "the reader to end")


def test_the_end_of_the_service_ends_the_streams(client: httpx.Client, pages: PageContext) -> None:
    with watching(client, "fleet"):
        pages.live.feed.close()
        wait_for(lambda: pages.live.watchers == 0, "the stream to end")


def test_a_stream_ends_when_its_token_is_revoked(api: ApiContext, store: SqlStore, serve: Serve) -> None:
    guarded = with_security(api)
    token = made_token(guarded, "ann", Role.VIEWER)
    pages = pages_over(guarded, store)
    pages.live.recheck = 0.05
    client = serve(services=pages.services, live=pages.live)
    client.post("/sign-in", data={"token": token.secret})
    with watching(client, "table:1"):
        wait_for(lambda: pages.live.watchers == 1, "the page to be watched")
        guarded.services.access.revoke_token(ROOT, TokenId(token.id))
        wait_for(lambda: pages.live.watchers == 0, "the stream to end")
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
    assert read_topic(text) == topic


def await_readings(pages: PageContext, count: int) -> None:
    wanted = pages.live.feed.readings + count
    wait_for(lambda: pages.live.feed.readings >= wanted, f"{count} readings")
