# SPDX-License-Identifier: Apache-2.0
"""Reads the rows of a Paimon table at one of its snapshots."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql import DataFrame

from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.paimon.tables import Target, own_commits, target_of, user_of
from lakehand.jobs.rows import Document, FrameReader, NotComparable, Step, in_a_row
from lakehand.jobs.spark import identifier

FIRST_ROW = "first-row"
EXPIRY = "record-level.expire-time"


class PaimonRows(FrameReader):
    changing: ClassVar[Mapping[str, str]] = {"expire_partitions": "old partitions go, by intent"}

    def check(self) -> None:
        table = TableGuard(self.job, self._target).check()
        options = table.coreOptions()
        if options.toConfiguration().containsKey(EXPIRY):
            raise NotComparable(f"the table's {EXPIRY} drops old rows whenever files are rewritten")
        is_late = options.deletionVectorsEnabled() or str(options.mergeEngine().toString()) == FIRST_ROW
        if is_late and not table.primaryKeys().isEmpty():
            raise NotComparable("readers of this table see new rows only after a compaction, so that it adds some")

    def newest(self) -> str | None:
        found = self._table().snapshotManager().latestSnapshotId()
        return None if found is None else str(found)

    def steps(self, result: Document) -> Sequence[Step]:
        before = self.job.parameters.get("before")
        if isinstance(before, bool) or not isinstance(before, int):
            return []  # of an action that commits no snapshot
        return in_a_row(own_commits(self._table(), user_of(self.job), before))

    def is_there(self, state: str) -> bool:
        return bool(self._table().snapshotManager().snapshotExists(int(state)))

    def frame(self, state: str) -> DataFrame:
        target = self._target
        TableGuard(self.job, target).check_history(self._table(), int(state), int(state))
        reader = self.job.session.read.option("scan.snapshot-id", state)
        if self.job.parameters.get("catalog"):
            return reader.table(f"{target.catalog}.{identifier(target.namespace)}.{identifier(target.name)}")
        return reader.format("paimon").load(self.job.boundary.real)

    def exact_count(self, state: str) -> int | None:
        """Without keys and deletion vectors a record is a row."""
        table = self._table()
        if not table.primaryKeys().isEmpty() or table.coreOptions().deletionVectorsEnabled():
            return None
        return int(table.snapshotManager().snapshot(int(state)).totalRecordCount())

    @property
    def _target(self) -> Target:
        return target_of(self.job)

    def _table(self) -> Any:
        return self._target.load()


READER = PaimonRows
