# SPDX-License-Identifier: Apache-2.0
"""Fifty browsers that fetch a page again cost one page; whoever opens it, or is somebody else, gets his own.

Nobody fills memory by it: only pages of valid sessions are kept, few of them, and for a moment.
"""

import asyncio
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from lakehand.web import build_pages, page_cache
from lakehand.web.page_cache import PageCache
from lakehand.web.rendering import static_version
from tests.rest.parts import with_security
from tests.web.conftest import pages_over

AGAIN = {"X-Live": "1", "Cookie": "lakehand-session=ann"}
OF_BOB = AGAIN | {"Cookie": "lakehand-session=bob"}
SESSIONS = ("ann", "bob")


class Cache(PageCache):
    @property
    def kept(self) -> int:
        return len(self._pages)

    @property
    def size(self) -> int:
        return sum(page.size for page in self._pages.values())


class CountedPages:
    def __init__(self) -> None:
        self.made = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.made += 1
        session = Request(scope).cookies.get("lakehand-session", "")
        await asyncio.sleep(0)
        await self.answer(f"{self.made} {scope['path']} {session}")(scope, receive, send)

    def answer(self, text: str) -> Response:
        return HTMLResponse(text)


@pytest.fixture
def pages() -> CountedPages:
    return CountedPages()


def cache_over(pages: CountedPages) -> Cache:
    return Cache(pages, is_session=lambda cookie: cookie in SESSIONS)


def fetch(pages: CountedPages | Cache, *requests: tuple[str, dict[str, str]]) -> list[str]:
    async def run() -> list[str]:
        transport = httpx.ASGITransport(app=pages if isinstance(pages, Cache) else cache_over(pages))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            answers = await asyncio.gather(*(client.get(path, headers=headers) for path, headers in requests))
        return [answer.text for answer in answers]

    return asyncio.run(run())


def test_pages_that_are_fetched_again_are_made_once(pages: CountedPages) -> None:
    assert set(fetch(pages, *[("/", AGAIN)] * 50)) == {"1 / ann"}


def test_an_opened_page_is_made_for_the_request(pages: CountedPages) -> None:
    fetch(pages, ("/", AGAIN), ("/", {}), ("/", {}))

    assert pages.made == 3


def test_callers_and_addresses_do_not_share_a_page(pages: CountedPages) -> None:
    fetch(pages, ("/", AGAIN), ("/", OF_BOB), ("/?x=1", AGAIN), ("/t", AGAIN))

    assert pages.made == 4


def test_a_page_is_kept_for_a_moment_only(pages: CountedPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "KEEP", 0.0)

    fetch(pages, ("/", AGAIN), ("/", AGAIN))

    assert pages.made == 2


@pytest.mark.parametrize("cookie", ["", "lakehand-session=forged", "other=ann"])
def test_whoever_has_no_session_leaves_nothing_in_memory(pages: CountedPages, cookie: str) -> None:
    cache = cache_over(pages)

    fetch(cache, *[("/", AGAIN | {"Cookie": cookie})] * 20)

    assert pages.made == 20
    assert cache.kept == 0


class FilesAndStreams(CountedPages):
    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def answer(self, text: str) -> Response:
        kinds: list[Response] = [
            FileResponse(self.file, media_type="text/javascript"),
            StreamingResponse(iter([text]), media_type="text/html"),
            HTMLResponse(text, status_code=404),
            HTMLResponse("x" * (page_cache.LARGEST_PAGE + 1)),
        ]
        return kinds[self.made % 4]


def test_files_streams_errors_and_huge_pages_are_sent_and_never_kept(tmp_path: Path) -> None:
    (tmp_path / "charts.js").write_text("plot()")
    pages = FilesAndStreams(tmp_path / "charts.js")
    cache = cache_over(pages)

    answers = fetch(cache, *[(f"/?{number}", AGAIN) for number in range(4)])

    assert "plot()" in answers
    assert all(answers)
    assert cache.kept == 0


def test_the_cache_is_bounded(pages: CountedPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "MOST_PAGES", 10)
    cache = cache_over(pages)

    fetch(cache, *[(f"/?{number}", AGAIN) for number in range(100)])

    assert cache.kept == 10


def test_the_cache_is_bounded_in_bytes(pages: CountedPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "MOST_BYTES", 50)
    cache = cache_over(pages)

    fetch(cache, *[(f"/?{number}", AGAIN) for number in range(100)])

    assert 0 < cache.size <= 50


def test_a_page_leaves_memory_when_its_moment_is_over(pages: CountedPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "KEEP", 0.01)
    cache = cache_over(pages)

    async def run() -> None:
        transport = httpx.ASGITransport(app=cache)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            await client.get("/", headers=AGAIN)
            assert cache.kept == 1
            later = asyncio.Event()
            asyncio.get_running_loop().call_later(2 * page_cache.KEEP, later.set)
            await later.wait()

    asyncio.run(run())
    assert cache.kept == 0


class FailingPages(CountedPages):
    def answer(self, text: str) -> Response:
        raise OSError("no such template")


def test_a_page_that_fails_leaves_nothing_in_memory() -> None:
    cache = cache_over(FailingPages())
    with pytest.raises(OSError, match="template"):
        fetch(cache, ("/", AGAIN))

    assert cache.kept == 0


def test_a_stranger_fills_no_memory_with_files_or_pages(api: ApiContext, store: SqlStore) -> None:
    """With the routes of the dashboard."""
    app = build_pages(pages_over(with_security(api, tokens={"ann": "ann-has-a-token"}), store))

    async def run() -> None:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here", headers=AGAIN) as stranger:
            for path in (f"/static/{static_version()}/live.js", "/favicon.ico", "/sign-in"):
                assert (await stranger.get(path, params={"n": 1})).status_code == 200

    asyncio.run(run())
    assert sum(len(m.get("body", b"")) for page in app.app._pages.values() for m in page.messages) == 0
