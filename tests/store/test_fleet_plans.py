# SPDX-License-Identifier: Apache-2.0
"""No page of the fleet reads finished operations: SQLite's plans find the unfinished ones by an index."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from sqlalchemy import event

from lakehand.core.loops.cleaning import FleetRecorder
from lakehand.core.ports import TableFilter
from lakehand.core.services.fleet import FleetService
from lakehand.domain.fleet import TableSort, TableState
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.store import SqlStore, open_store


def list_only(state: TableState, fleet: FleetService) -> object:
    return fleet.tables(TableFilter(state=state))


CALLS: dict[str, Callable[[FleetService], object]] = {
    "summary": FleetService.summary,
    "tables": FleetService.tables,
    "tables-by-state": lambda fleet: fleet.tables(sort=TableSort.STATE),
    **{f"only-{state}": partial(list_only, state) for state in TableState},
    "needs-person": FleetService.needs_person,
    "queues": FleetService.queues,
    "done": FleetService.done,
    "trend": FleetService.trend,
    "recorder": lambda fleet: FleetRecorder(
        store=fleet.store, metrics=PrometheusMetrics(), keep_history=timedelta(days=30)
    ).run_once(),
}


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    store = open_store(f"sqlite:///{copyfile(sqlite_template, tmp_path / 'store.db')}")
    yield store
    store.close()


def plans(store: SqlStore, call: Callable[[FleetService], object]) -> list[str]:
    """How SQLite runs each statement of a call."""
    seen: list[tuple[str, Any]] = []
    event.listen(store.database.engine, "before_cursor_execute", lambda *given: seen.append(given[2:4]))
    call(FleetService(store=store))
    with store.database.engine.connect() as connection:
        rows = [connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values).all() for text, values in list(seen)]
    return [row[3] for found in rows for row in found]


@pytest.mark.parametrize("name", list(CALLS))
def test_no_call_reads_all_operations(store: SqlStore, name: str) -> None:
    steps = plans(store, CALLS[name])

    assert steps
    assert [step for step in steps if step.startswith("SCAN operation") and "operation_hour" not in step] == []


def test_a_scan_would_be_noticed(store: SqlStore) -> None:
    def count(fleet: FleetService) -> None:
        store.database.read(lambda tx: tx.exec_driver_sql("SELECT count(*) FROM operation WHERE job = 'x'"))

    assert plans(store, count) == ["SCAN operation"]


def test_overlapping_tables_are_found_by_an_index(store: SqlStore) -> None:
    steps = plans(store, lambda fleet: store.tables.overlapping("/w/sales/orders"))

    assert [step for step in steps if step.startswith("SCAN")] == []
    assert [step for step in steps if "ix_tbl_path" in step]
