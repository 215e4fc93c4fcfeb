# SPDX-License-Identifier: Apache-2.0
"""Lists of a REST catalog that do not end: a fake catalog answers with such pages, over HTTP."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lakehand.formats.iceberg import IcebergFormat, rest_client
from lakehand.formats.iceberg.rest_client import MOST_IDLE, all_pages
from lakehand.spi import Catalog, Format, Invalid, TableReference
from lakehand.store import open_store
from lakehand.store.migrate import upgrade
from tests.rest.parts import Listed, context_over

Pages = Callable[[int], tuple[list[str], str | None]]  # by the number of the request


def same_page(number: int) -> tuple[list[str], str | None]:
    return ["a", "b"], "again"


def same_names(number: int) -> tuple[list[str], str | None]:
    return ["a", "b"], f"page{number}"


def empty(number: int) -> tuple[list[str], str | None]:
    return [], f"page{number}"


def new_names(number: int) -> tuple[list[str], str | None]:
    return [f"t{number}"], f"page{number}"


def new_names_and_one_token(number: int) -> tuple[list[str], str | None]:
    return [f"t{number}"], "cursor"


ENDLESS: Mapping[str, tuple[Pages, str]] = {
    "the same page": (same_page, "a page token comes again, and brings nothing new"),
    "the same names": (same_names, f"{MOST_IDLE} pages in a row bring nothing new"),
    "empty pages": (empty, f"{MOST_IDLE} pages in a row bring nothing new"),
    "new names": (new_names, "it has more than 50 names"),
    "new names for one token": (new_names_and_one_token, "it has more than 50 names"),
}


class FakeEndlessCatalog(BaseHTTPRequestHandler):
    endless = "tables"  # or "namespaces"
    pages: Pages = staticmethod(same_page)
    requests = 0

    def do_GET(self) -> None:
        body = json.dumps(self.answer(urlsplit(self.path).path, parse_qs(urlsplit(self.path).query))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        if path.endswith("/config"):
            return {"defaults": {}, "overrides": {}}
        kind = path.rpartition("/")[2]
        if kind != self.endless:
            return {"namespaces": [] if "parent" in query else [["sales"]], "identifiers": []}
        type(self).requests += 1
        names, token = type(self).pages(self.requests)
        found = [[name] if kind == "namespaces" else {"namespace": ["sales"], "name": name} for name in names]
        return {"namespaces" if kind == "namespaces" else "identifiers": found, "next-page-token": token}

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


@contextmanager
def fake(pages: Pages, endless: str) -> Iterator[tuple[Catalog, type[FakeEndlessCatalog]]]:
    handler = type("Bound", (FakeEndlessCatalog,), {"pages": staticmethod(pages), "endless": endless})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        properties = {"uri": f"http://127.0.0.1:{server.server_port}"}
        yield Catalog(name="lake", format=Format("iceberg"), type="rest", properties=properties), handler
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "MOST_NAMES", 50)


@pytest.mark.parametrize("endless", ["tables", "namespaces"])
@pytest.mark.parametrize(("pages", "why"), ENDLESS.values(), ids=list(ENDLESS))
def test_a_list_without_end_is_refused_by_the_name_of_its_catalog(pages: Pages, why: str, endless: str) -> None:
    with fake(pages, endless) as (catalog, handler), pytest.raises(Invalid) as refusal:
        list(IcebergFormat().tables(catalog))

    assert f"{endless} of" in str(refusal.value)
    assert "the catalog lake does not end" in str(refusal.value)
    assert why in str(refusal.value)
    assert handler.requests <= 51


def test_pages_are_read_to_their_end_and_empty_ones_between_them_are_allowed() -> None:
    answers: list[tuple[list[tuple[str]], str | None]] = [([("a",), ("b",)], "1"), ([], "2"), ([], "2"), ([("c",)], "")]
    answers[2] = ([("b",)], "3")

    assert all_pages(lambda _: answers.pop(0), what="tables") == [("a",), ("b",), ("c",)]


def test_no_more_pages_are_read_than_a_list_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "MOST_PAGES", 4)
    asked: list[str | None] = []

    def ask(token: str | None) -> tuple[list[tuple[str]], str | None]:
        asked.append(token)
        return [(str(len(asked)),)], str(len(asked))

    with pytest.raises(Invalid, match="more than 4 pages"):
        all_pages(ask, what="tables")
    assert asked == [None, "1", "2", "3"]


class FromRest(Listed):
    def __init__(self, rest: Catalog) -> None:
        self.rest = rest

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        return (replace(one, catalog=catalog) for one in IcebergFormat().tables(self.rest))


@pytest.mark.parametrize("pages", [same_page, empty, new_names])
def test_nothing_is_retired_when_the_list_did_not_end(sqlite_url: str, pages: Pages) -> None:
    upgrade(sqlite_url)
    store = open_store(sqlite_url)
    context_over(store, listed=Listed(["orders"])).services.catalogs.sync_now("lake")
    with fake(pages, "tables") as (rest, _):
        report = context_over(store, listed=FromRest(rest)).services.catalogs.sync_now("lake", accept_empty=True)

    assert "the catalog lake does not end" in report.problem
    assert [table.name for table in context_over(store).services.catalogs.registered("lake")] == ["db.orders"]
    store.close()
