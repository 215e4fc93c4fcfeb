# SPDX-License-Identifier: Apache-2.0
"""What the service's loops and an engine would do: end operations, and store the health of tables."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from lakehand.core.ports import OperationFilter
from lakehand.domain.health import HealthPoint
from lakehand.domain.operations import Attempt, Handle, InstanceId, OperationId, Status
from lakehand.domain.processes import Failure
from lakehand.domain.tables import TableId
from lakehand.store import SqlStore


def end_operation(store: SqlStore, id: int, status: Status = Status.SUCCEEDED, failure: Failure | None = None) -> None:
    now = store.clock.now()
    pending = store.operations.get(OperationId(id))
    claimed = store.operations.claim(pending, holder=InstanceId("one"), now=now, time_to_live=timedelta(minutes=1))
    if claimed is None:
        return  # it was canceled since it was listed
    running = claimed.moved_to(Status.SUBMITTED, at=now, reason="sent").moved_to(Status.RUNNING, at=now, reason="runs")
    over = replace(
        running.moved_to(status, at=now, reason=f"failed: {failure.reason}" if failure else "3 files became 1"),
        failure=failure,
    )
    attempt = Attempt(
        operation=over.id, number=1, handle=Handle(f"handle-{id}"), engine="spark", instance=InstanceId("one"),
        started_at=now, finished_at=now,
    )  # fmt: skip
    store.operations.save(running, now=now, attempt=attempt)
    store.operations.save(over, now=now)


def put_health(store: SqlStore, table: int, hours_ago: float, **numbers: Any) -> None:
    at = store.clock.now() - timedelta(hours=hours_ago)
    store.probes.finish({}, {}, health={TableId(table): HealthPoint(at=at, numbers=numbers)}, now=at)


@contextmanager
def engine_at_work(store: SqlStore) -> Iterator[None]:
    """Whatever is pending succeeds soon."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.02):
            for operation in store.operations.list(
                OperationFilter(statuses=[Status.PENDING]), limit=10, cursor=None
            ).items:
                end_operation(store, operation.id)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
