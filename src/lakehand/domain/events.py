# SPDX-License-Identifier: Apache-2.0
"""Events: what happened, in the order it happened; stored to explain what the service did."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lakehand.domain.operations import Operation, OperationId
from lakehand.domain.processes import Json
from lakehand.domain.tables import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. Events with the same fingerprint share one row with a count."""

    kind: str  # for instance "operation.submitted", "table.registered", "intake.refused"
    message: str
    table: TableId | None = None
    operation: OperationId | None = None
    detail: Mapping[str, Json] = field(default_factory=dict)
    fingerprint: str | None = None
    times: int = 1  # how many equal ones it stands for

    @classmethod
    def counted(
        cls, kind: str, message: str, detail: Mapping[str, Json] | None = None, *, table: TableId | None = None
    ) -> "Event":
        """An event whose repetitions are one row with a count."""
        detail = detail or {}
        fingerprint = hashlib.sha256(f"{kind}\n{message}\n{detail}".encode()).hexdigest()[:40]
        return cls(kind=kind, message=message, detail=detail, table=table, fingerprint=fingerprint)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event as the database keeps it."""

    id: int
    event: Event
    at: datetime  # when it last happened
    first_at: datetime
    times: int


def operation_event(operation: Operation, kind: str, message: str) -> Event:
    return Event(kind=kind, message=message, table=operation.table, operation=operation.id)
