# SPDX-License-Identifier: Apache-2.0
"""What a factory makes of an engine's status, without a table."""

from datetime import datetime, timezone

from lakehand.domain.operations import OperationId
from lakehand.domain.tables import TableId
from lakehand.spi import (
    Action,
    DetachedRuntime,
    EngineStatus,
    Failure,
    Format,
    Instant,
    Operation,
    ProcessFactory,
    TableFormat,
    TableProcess,
    TableSpec,
)

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)


class NoFormat(TableFormat):
    """A failure is classified without reading the table."""

    format = Format("none")

    def probe(self, reference: object) -> str:
        raise AssertionError(reference)

    def inspect(self, reference: object) -> None:  # type: ignore[override]
        raise AssertionError(reference)


def failure_of(factory: ProcessFactory, action: str, status: EngineStatus, *, run_times: int = 1) -> Failure:
    spec = TableSpec(location="/w/t", db_name="shop", table_name="payments", format=Format("none"))
    operation = Operation(
        id=OperationId(1), table=TableId(1), process=TableProcess(action=Action(action)), origin="coordinator",
        instant=Instant("1"), run_times=run_times, not_before=NOON, due_at=NOON, created_at=NOON, updated_at=NOON,
    )  # fmt: skip
    return factory.classify(DetachedRuntime(spec=spec, format=NoFormat(), now=NOON), operation, status)
