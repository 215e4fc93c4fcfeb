# SPDX-License-Identifier: Apache-2.0
"""The pages beside the API, over a real SQLite store on a real server."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from lakehand.api.tables import NewTable
from lakehand.core.feed import ChangeFeed
from lakehand.rest import ApiContext
from lakehand.store import SqlStore, open_store
from lakehand.web import LivePages, PageContext
from tests.rest.parts import context_over, serving


@dataclass(frozen=True)
class FoundTable:
    """A stand-in for a checked table."""

    location: str
    format: str = "hudi"
    name: str = "found"
    problem: str = ""
    state: str = "needs"
    needed: tuple[tuple[str, str], ...] = (("compaction", "six log files"),)

    @property
    def numbers(self) -> dict[str, int]:
        return {"files": 12, "small_files": 7, "bytes": 2048}

    @property
    def reference_text(self) -> str:
        return self.location


class FoundTables:
    """A stand-in for the search through folders."""

    def __init__(self, *tables: FoundTable) -> None:
        self.tables = tables

    def discover(self, where: str) -> Iterator[FoundTable]:
        yield from (one for one in self.tables if one.location.startswith(where))

    def new_table(self, reference: str) -> NewTable:
        return NewTable(location=reference, format="hudi")


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    file = shutil.copyfile(sqlite_template, tmp_path / "lakehand.db")
    opened = open_store(f"sqlite:///{file}")
    yield opened
    opened.close()


@pytest.fixture
def api(store: SqlStore) -> ApiContext:
    return context_over(store)


@pytest.fixture
def pages(api: ApiContext, store: SqlStore) -> PageContext:
    return pages_over(api, store)


def pages_over(api: ApiContext, store: SqlStore) -> PageContext:
    return PageContext(
        services=api.services, discovery=FoundTables(FoundTable("/data/lake/found")), warehouses=("/data",),
        live=LivePages(feed=ChangeFeed(store=store, pace=0.05), quiet=0.2),
    )  # fmt: skip


Serve = Callable[..., httpx.Client]


def browser_headers(client: httpx.Client) -> dict[str, str]:
    return {
        "Origin": str(client.base_url).rstrip("/"),
        "Sec-Fetch-Site": "same-origin",
        "Content-Type": "application/x-www-form-urlencoded",
    }


@pytest.fixture
def serve(api: ApiContext, pages: PageContext) -> Iterator[Serve]:
    """A client of the pages, with some parts of their context replaced. It sends what a browser sends."""
    with ExitStack() as stack:

        def start(**changed: object) -> httpx.Client:
            own = replace(pages, **changed)  # type: ignore[arg-type]
            client = stack.enter_context(serving(api, pages=own))
            stack.callback(own.live.feed.close, timeout=10)
            client.headers.update(browser_headers(client))
            return client

        yield start


@pytest.fixture
def client(serve: Serve) -> httpx.Client:
    return serve()
