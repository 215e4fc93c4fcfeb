# SPDX-License-Identifier: Apache-2.0
"""How long the fleet page and the list of tables take, with few and with very many finished operations, on SQLite."""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.fleet_rows import fill_history, fill_operations, fill_tables
from bench.report import Figure, print_line
from bench.whole_pages import Spans, measure_pages, page_figures
from lakehand.core.loops.cleaning import FleetRecorder
from lakehand.core.ports import TableFilter
from lakehand.core.services.fleet import DAY, WEEK, FleetService
from lakehand.domain.fleet import TableSort, TableState
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.store import SqlStore, open_store
from lakehand.store.migrate import upgrade

GOAL = 50.0  # milliseconds
MONTH = 30 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSize:
    tables: int = 10_000
    few: int = 1_000  # finished operations
    many: int = 1_000_000
    rounds: int = 41


def run(folder: Path, *, quick: bool) -> list[Figure]:
    size = FleetSize(tables=200, few=100, many=2_000, rounds=5) if quick else FleetSize()
    path = folder / "lakehand.db"
    upgrade(f"sqlite:///{path}")
    with filling(path) as connection:
        fill_tables(connection, size.tables)
        fill_history(connection)
    figures: list[Figure] = []
    pages: list[Spans] = []
    for done, wanted in ((0, size.few), (size.few, size.many)):
        print_line(f"fleet pages: {size.tables} tables, {wanted} finished operations")
        with filling(path) as connection:
            fill_operations(connection, range(done, wanted), size.tables)
        figures += measure(f"sqlite:///{path}", wanted, size.rounds)
        pages.append(measure_pages(f"sqlite:///{path}", folder / "home", size.rounds))
    few, many = pages
    return [*figures, *page_figures(few, many, size.many)]


@contextmanager
def filling(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that writes quickly; commits at the end."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        yield connection


def measure(url: str, finished: int, rounds: int) -> list[Figure]:
    store = open_store(url)
    figures = []
    for name, call in calls(store).items():
        spans = sorted(span_of(call) for _ in range(rounds))
        for what, value in (("median", spans[rounds // 2]), ("p95", spans[int(rounds * 0.95)])):
            label = f"{name}, {finished:,} operations, {what}"
            figures.append(Figure(bench="pages", name=label, value=value, unit="ms", at_most=GOAL))
    store.close()
    return figures


def calls(store: SqlStore) -> Mapping[str, Callable[[], object]]:
    fleet = FleetService(store=store)
    failed, orders = TableFilter(state=TableState.FAILED), TableFilter(search="ORDERS_7")
    return {
        "summary": fleet.summary,
        "summary of an owner": lambda: fleet.summary(TableFilter(owner="owner-3")),
        "choices": fleet.choices,
        "tables by name": fleet.tables,
        "tables by small files": lambda: fleet.tables(sort=TableSort.SMALL_FILES, descending=True),
        "tables by state": lambda: fleet.tables(sort=TableSort.STATE),
        "tables, last page": lambda: fleet.tables(sort=TableSort.BYTES, offset=9_900),
        "tables that failed": lambda: fleet.tables(failed),
        "tables by search": lambda: fleet.tables(orders),
        "needs a person": fleet.needs_person,
        "trend of a week": lambda: fleet.trend(WEEK),
        "trend of a month": lambda: fleet.trend(MONTH),
        "operations by hour": lambda: fleet.operations_by_hour(WEEK),
        "done in a day": fleet.done,
        "queues": fleet.queues,
        "recorder": FleetRecorder(store=store, metrics=PrometheusMetrics(), keep_history=MONTH).run_once,
    }


def span_of(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000
