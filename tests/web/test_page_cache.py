# SPDX-License-Identifier: Apache-2.0
"""Fifty browsers that fetch a page again cost one page; whoever opens it, or is somebody else, gets his own."""

import asyncio

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from lakehand.web import page_cache
from lakehand.web.page_cache import PageCache

AGAIN = {"X-Live": "1"}


class CountedPages:
    def __init__(self) -> None:
        self.made = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.made += 1
        cookie = Request(scope).headers.get("cookie", "")
        await asyncio.sleep(0)
        await PlainTextResponse(f"{self.made} {scope['path']} {cookie}")(scope, receive, send)


@pytest.fixture
def pages() -> CountedPages:
    return CountedPages()


def fetch(pages: CountedPages, *requests: tuple[str, dict[str, str]]) -> list[str]:
    async def run() -> list[str]:
        transport = httpx.ASGITransport(app=PageCache(pages))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            answers = await asyncio.gather(*(client.get(path, headers=headers) for path, headers in requests))
        return [answer.text for answer in answers]

    return asyncio.run(run())


def test_pages_that_are_fetched_again_are_made_once(pages: CountedPages) -> None:
    assert set(fetch(pages, *[("/", AGAIN)] * 50)) == {"1 / "}


def test_an_opened_page_is_made_for_the_request(pages: CountedPages) -> None:
    fetch(pages, ("/", AGAIN), ("/", {}), ("/", {}))

    assert pages.made == 3


def test_callers_and_addresses_do_not_share_a_page(pages: CountedPages) -> None:
    fetch(pages, ("/", AGAIN | {"Cookie": "a=1"}), ("/", AGAIN | {"Cookie": "a=2"}), ("/?x=1", AGAIN), ("/t", AGAIN))

    assert pages.made == 4


def test_a_page_is_kept_for_a_moment_only(pages: CountedPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "KEEP", 0.0)

    fetch(pages, ("/", AGAIN), ("/", AGAIN))

    assert pages.made == 2


def test_the_cache_is_bounded(pages: CountedPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "KEEP", 0.0)
    monkeypatch.setattr(page_cache, "MOST_PAGES", 10)
    cache = PageCache(pages)
    for number in range(100):
        cache.page(("/", str(number).encode(), b""))

    assert len(cache._pages) <= 10
