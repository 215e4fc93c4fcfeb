# SPDX-License-Identifier: Apache-2.0
"""Requests about the health of tables over time: the points of a table, and the operations that ended meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakehand.api.tables import HistoryQuery
from lakehand.core.ports import OperationEnd, Store
from lakehand.domain.health import HealthPoint
from lakehand.domain.processes import Json
from lakehand.domain.tables import Table, TableId

MOST_OPERATIONS = 500
EVERYTHING = HistoryQuery()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """The health of a table over time, oldest first."""

    table: Table
    points: Sequence[HealthPoint]
    operations: Sequence[OperationEnd]  # the newest that ended in that time, with the numbers of their results


@dataclass(frozen=True, kw_only=True)
class HealthService:
    store: Store

    def history(self, id: TableId, query: HistoryQuery = EVERYTHING) -> TableHistory:
        """Everything that is kept, or what is not older than ``since``. A removed table has its history, too."""
        table, since = self.store.tables.get(id), query.since
        points = self.store.health.of_table(id, since)
        start = since or (points[0].at if points else None)
        ends = self.store.operations.ends(id, limit=MOST_OPERATIONS)
        shown = [end for end in reversed(ends) if start is None or end.finished_at >= start]
        operations = [replace(end, result=plain_numbers(end.result)) for end in shown]
        return TableHistory(
            table=table, points=points, operations=sorted(operations, key=lambda end: (end.finished_at, end.id))
        )


def plain_numbers(result: Mapping[str, Json]) -> dict[str, Json]:
    """Without texts and lists: a dry run lists up to a thousand files."""
    return {
        name: value for name, value in result.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
