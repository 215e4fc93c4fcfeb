# SPDX-License-Identifier: Apache-2.0
"""Ready-made words of the domain for tests."""

from datetime import datetime, timezone

from lakehand.domain.actions import Action
from lakehand.domain.operations import Operation, OperationId
from lakehand.domain.processes import Instant, TableProcess
from lakehand.domain.tables import TableId

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)
COMPACTION = Action.register("compaction")


def an_operation(id: int = 1, table: int = 1, **changes: object) -> Operation:
    values: dict[str, object] = {
        "id": OperationId(id),
        "table": TableId(table),
        "instant": Instant("20261115120000000"),
        "process": TableProcess(action=COMPACTION, job="hudi.compaction"),
        "not_before": NOON,
        "due_at": NOON,
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Operation(**{**values, **changes})  # type: ignore[arg-type]
