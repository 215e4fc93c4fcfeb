# SPDX-License-Identifier: Apache-2.0
"""How long the service needs for each page of the dashboard, with few and with very many finished operations."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import httpx
from pydantic import SecretStr

from bench.report import Figure
from lakehand.app.server import page_context
from lakehand.app.settings import Settings
from lakehand.app.wiring import build
from lakehand.web import PageContext, build_pages

GOAL = 150.0  # milliseconds
MOST_SLOWER = 1.3  # with a million operations, against a thousand
PATHS = {
    "fleet": "/",
    "tables": "/tables",
    "tables by small files": "/tables?sort=small_files",
    "tables by search": "/tables?search=orders_7",
    "failed tables": "/tables?state=failed",
    "a table": "/tables/42",
    "operations": "/operations",
    "failed operations": "/operations?status=failed",
    "operations of an owner": "/operations?owner=owner-3",
    "an operation": "/operations/900",
    "catalogs": "/catalogs",
    "events": "/events",
    "service": "/service",
}


Spans = dict[str, list[float]]  # milliseconds of each page


@contextmanager
def pages_over(database: str, home: Path) -> Iterator[PageContext]:
    """The pages of a service whose loops do not run."""
    home.mkdir(mode=0o700, exist_ok=True)
    service = build(Settings(home=home, database=SecretStr(database)))
    try:
        yield page_context(service, None)
    finally:
        service.stop()


def measure_pages(database: str, home: Path, rounds: int) -> Spans:
    with pages_over(database, home) as context:
        return asyncio.run(spans_of(context, rounds))


def page_figures(few: Spans, many: Spans, finished: int) -> Iterator[Figure]:
    """The slowest twentieth with many operations, and the medians compared."""
    for name, found in many.items():
        label = f"page {name}, {finished:,} operations"
        yield Figure(bench="pages", name=f"{label}, p95", value=p95(found), unit="ms", at_most=GOAL)
        ratio = median(found) / median(few[name])
        yield Figure(bench="pages", name=f"{label} / few, medians", value=ratio, at_most=MOST_SLOWER)


async def spans_of(context: PageContext, rounds: int) -> Spans:
    """Milliseconds of the service, without a network."""
    transport = httpx.ASGITransport(app=build_pages(context))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return {name: [await span_of(client, path) for _ in range(rounds)] for name, path in PATHS.items()}


async def span_of(client: httpx.AsyncClient, path: str) -> float:
    began = time.perf_counter()
    answer = await client.get(path)
    if answer.status_code != 200:
        raise RuntimeError(f"{path} was answered with {answer.status_code}")
    return (time.perf_counter() - began) * 1000


def p95(spans: list[float]) -> float:
    return sorted(spans)[int(len(spans) * 0.95)]
