# SPDX-License-Identifier: Apache-2.0
"""Tables, operations and times that the tests of the store start from."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from lakehand.core.ports import Store, TableFilter
from lakehand.domain.actions import Action
from lakehand.domain.notifications import InboxRow
from lakehand.domain.operations import (
    Attempt,
    Handle,
    InstanceId,
    NewOperation,
    Operation,
    Status,
)
from lakehand.domain.processes import Instant, TableProcess
from lakehand.domain.rules import Closed, DispatchQueue, Limits
from lakehand.domain.tables import Format, Table, TableSpec

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
COMPACTION, CLUSTERING, CLEAN = Action("compaction"), Action("clustering"), Action("clean")
HUDI = Format("hudi")
ONE, TWO = InstanceId("one"), InstanceId("two")
PLAN = Instant("20260101000000000")


def spec(location: str = "/w/orders", **values: Any) -> TableSpec:
    named: dict[str, Any] = {
        "format": HUDI,
        "db_name": "sales",
        "table_name": "orders",
        "action_types": frozenset({COMPACTION}),
    }
    return TableSpec(location=location, **(named | values))


def a_table(store: Store, location: str = "/w/orders", **values: Any) -> Table:
    values.setdefault("table_name", location.rsplit("/", maxsplit=1)[-1])
    return store.tables.add(spec(location, **values), now=NOON)[0]


def process(action: Action = COMPACTION, **values: Any) -> TableProcess:
    return TableProcess(action=action, **values)


def a_pending_operation(
    store: Store, table: Table | None = None, instant: str = PLAN, of: Mapping[str, Any] | None = None, **values: Any
) -> Operation:
    table = table or a_table(store)
    new = NewOperation(table=table.id, instant=Instant(instant), process=process(**(of or {})), **values)
    return store.operations.add(new, now=NOON)[0]


def a_claimed_operation(store: Store, table: Table | None = None, instant: str = PLAN, **values: Any) -> Operation:
    pending = a_pending_operation(store, table, instant, **values)
    claimed = store.operations.claim(pending, holder=ONE, now=NOON, time_to_live=MINUTE)
    assert claimed is not None
    return claimed


def a_running_operation(store: Store, table: Table | None = None, instant: str = PLAN, **values: Any) -> Operation:
    claimed = a_claimed_operation(store, table, instant, **values)
    submitted = claimed.moved_to(Status.SUBMITTED, at=NOON, reason="sent")
    return store.operations.save(submitted.moved_to(Status.RUNNING, at=NOON, reason="runs"), now=NOON)


def a_finished_operation(
    store: Store, table: Table | None = None, instant: str = PLAN, status: Status = Status.FAILED, at: datetime = NOON
) -> Operation:
    running = a_running_operation(store, table, instant)
    return store.operations.save(running.moved_to(status, at=at, reason="over"), now=at)


def an_attempt(operation: Operation, handle: str = "handle-1", **values: Any) -> Attempt:
    known: dict[str, Any] = {"number": 1, "engine": "spark", "instance": ONE, "started_at": NOON}
    return Attempt(operation=operation.id, handle=Handle(handle), **(known | values))


def queue_of(store: Store, *, now: datetime = NOON, limit: int = 9, closed: Closed | None = None) -> DispatchQueue:
    step = Limits().age_step
    return store.operations.dispatch_queue(now=now, limit=limit, age_step=step, close=lambda _: closed or Closed())


def inbox_row(table: TableSpec, *instants: str, **values: Any) -> InboxRow:
    values.setdefault("process", process())
    return InboxRow(table=table, instants=[Instant(i) for i in instants], **values)


def table_count(store: Store) -> int:
    return len(store.tables.list(TableFilter(), limit=1000, cursor=None).items)
