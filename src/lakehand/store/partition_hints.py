# SPDX-License-Identifier: Apache-2.0
"""The partitions that events named, one row per table: merged in the intake's transaction, removed by a decision."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from lakehand.domain.notifications import ChangedPartitions
from lakehand.domain.schedules import EvaluationResult
from lakehand.domain.tables import TableId
from lakehand.store.compiled_statements import BatchInsert, ListStatement
from lakehand.store.database import Database
from lakehand.store.dialects import insert_missing
from lakehand.store.schema import Id, LongText, partition_hint

MANY = "many"
c = partition_hint.c
OF_TABLE = select(partition_hint).where(c.tbl_id == bindparam("table"))
# Locked until the transaction ends: another instance may merge into the same row.
OF_TABLES = ListStatement(lambda ids: select(partition_hint).where(c.tbl_id.in_(ids)).with_for_update(), [Id])
IS_TABLE = c.tbl_id == bindparam("table")
MERGE = update(partition_hint).where(IS_TABLE).values(version=c.version + 1, names=bindparam("merged", type_=LongText))
# Only what the decision has seen: an event that came since then has raised the version.
USED = (
    update(partition_hint)
    .where(IS_TABLE, c.version == bindparam("seen"))
    .values(version=c.version + 1, names=None)
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SqlPartitions:
    database: Database

    def changed(self, table: TableId) -> ChangedPartitions:
        row = self.database.read(lambda tx: tx.execute(OF_TABLE, {"table": table}).first())
        return ChangedPartitions() if row is None else to_changed(row)


@dataclass(slots=True)
class PartitionHintWriter:
    """Writes within someone's transaction."""

    dialect: str
    insert: BatchInsert = field(init=False)

    def __post_init__(self) -> None:
        self.insert = BatchInsert(insert_missing(self.dialect, partition_hint))

    def merge(self, tx: Connection, named: Mapping[int, Sequence[str]]) -> None:
        """Add the named partitions to those that are stored."""
        if not named:
            return
        known = read(tx, named)
        missing = sorted(named.keys() - known.keys())
        if missing:
            self.insert.run(tx, [{"tbl_id": table, "version": 0, "names": None} for table in missing])
            known |= read(tx, missing)
        rows = [{"table": table, "merged": to_text(known[table].with_names(named[table]))} for table in sorted(named)]
        tx.execute(MERGE, rows)


def read(tx: Connection, tables: Iterable[int]) -> dict[int, ChangedPartitions]:
    return {row.tbl_id: to_changed(row) for row in OF_TABLES.rows(tx, sorted(tables))}


def remove_used(tx: Connection, results: Sequence[EvaluationResult]) -> None:
    """Remove what decisions have used, within the transaction that stores the decisions."""
    used: dict[TableId, int] = {}
    for result in results:
        if result.used_partitions is not None:
            used[result.schedule.table] = max(result.used_partitions, used.get(result.schedule.table, 0))
    if used:
        tx.execute(USED, [{"table": table, "seen": used[table]} for table in sorted(used)])


def to_text(changed: ChangedPartitions) -> str | None:
    if changed.is_many:
        return MANY
    return json.dumps(changed.names) if changed.names else None


def to_changed(row: Row[Any]) -> ChangedPartitions:
    if row.names == MANY:
        return ChangedPartitions(is_many=True, version=row.version)
    return ChangedPartitions(names=tuple(json.loads(row.names)) if row.names else (), version=row.version)
