# SPDX-License-Identifier: Apache-2.0
"""One round of dispatch, candidates and rules, while a hundred thousand operations wait: on each kind of database."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import Connection, insert, text

from bench.fleet_rows import operation_row, table_row
from bench.report import Figure, print_line
from lakehand.domain.rules import Choice, Limits, Usage, choose
from lakehand.store import SqlStore, open_store
from lakehand.store.migrate import upgrade
from lakehand.store.schema import metadata, operation, tbl
from tests.databases import mariadb, postgresql

WAITING, QUICK_WAITING = 100_000, 2_000
RUNNING = 16
CHUNK = 5_000
WINDOW = 200  # as the dispatcher has it
ROUNDS = 7
LIMITS = Limits(running=2 * RUNNING, queues={"slow": 2}, owner_share=0.25)
FREE: dict[str, Any] = {"lease_holder": None, "lease_token": None, "lease_until": None, "active_slot": None}
# What all that wait have in common, but for the last one; what runs has it, too.
CROWDS: Mapping[str, dict[str, Any]] = {
    "of 4 queues and 40 owners": {},
    "but one in a full queue": {"queue": "slow"},
    "but one of an owner with its share": {"owner": "greedy"},
}


def run(folder: Path, *, quick: bool) -> list[Figure]:
    figures: list[Figure] = []
    for kind in ("sqlite", "postgresql", "mariadb"):
        with database_of(kind, folder) as url:
            figures += measure(kind, url, QUICK_WAITING if quick else WAITING)
    return figures


@contextmanager
def database_of(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'lakehand.db'}"
        return
    with (postgresql if kind == "postgresql" else mariadb)() as server, server.fresh_database() as url:
        yield url


def measure(kind: str, url: str, waiting: int) -> list[Figure]:
    upgrade(url)
    store, figures = open_store(url), []
    for crowd, values in CROWDS.items():
        fill(store, waiting, values)
        taken, went = rounds(store, LIMITS)
        print_line(f"dispatch on {kind}: {waiting} wait {crowd}: {1000 * taken:.0f} ms, {went} go")
        figures.append(Figure(bench=f"dispatch {kind}", name=f"{waiting} wait {crowd}", value=1000 * taken, unit="ms"))
    taken, _ = rounds(store, Limits(running=RUNNING))
    figures.append(Figure(bench=f"dispatch {kind}", name="all slots are taken", value=1000 * taken, unit="ms"))
    store.close()
    return figures


def rounds(store: SqlStore, limits: Limits) -> tuple[float, int]:
    """The median of some rounds, in seconds, and how many operations each would start."""
    seen = [timed(lambda: one_round(store, limits)) for _ in range(ROUNDS)]
    return median(seconds for seconds, _ in seen), len(seen[0][1].go)


def one_round(store: SqlStore, limits: Limits) -> Choice:
    now = store.clock.now()
    queue = store.operations.dispatch_queue(
        now=now, limit=WINDOW, age_step=limits.age_step, close=lambda busy: Usage(busy, limits).closed
    )
    return choose(queue.candidates, queue.busy, limits, now, has_more_owners=queue.has_more_owners)


def timed(work: Callable[[], Choice]) -> tuple[float, Choice]:
    began = time.perf_counter()
    choice = work()
    return time.perf_counter() - began, choice


def fill(store: SqlStore, waiting: int, values: dict[str, Any]) -> None:
    """Four operations of each table wait, and 16 tables have one that runs."""
    at, tables = int(time.time() * 1000), waiting // 4 + RUNNING

    def write(tx: Connection) -> None:
        for table in reversed(metadata.sorted_tables):
            tx.execute(table.delete())
        for chunk in chunks(table_row(number, at) | {"paused": False} for number in range(1, tables + 1)):
            tx.execute(insert(tbl), chunk)
        for chunk in chunks(operation_rows(waiting, values, at)):
            tx.execute(insert(operation), chunk)

    store.database.write(write)
    analyze = "ANALYZE TABLE operation, tbl" if store.database.dialect == "mysql" else "ANALYZE"
    store.database.write(lambda tx: tx.execute(text(analyze)).close())


def operation_rows(waiting: int, values: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
    for number in range(waiting):
        due = at - number * 1000 % 3_600_000
        row = operation_row(-number - 1, 1 + number % (waiting // 4), "pending", at) | FREE
        row |= {"priority": number % 3, "schedule_time": due, "not_before": due}
        yield without_id(row | (values if number < waiting - 1 else {}))
    for number in range(RUNNING):
        table = waiting // 4 + 1 + number
        row = operation_row(-waiting - number - 1, table, "running", at) | FREE | values
        yield without_id(row | {"active_slot": f"{table}:table", "lease_until": at + 600_000})


def without_id(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "operation_id"}


def chunks(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
