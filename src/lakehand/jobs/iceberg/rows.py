# SPDX-License-Identifier: Apache-2.0
"""Reads the rows of an Iceberg table at one of its snapshots."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql import DataFrame

from lakehand.jobs.iceberg import outside, tables
from lakehand.jobs.rows import Document, FrameReader, Step
from lakehand.jobs.safety import operation_tag
from lakehand.jobs.spark import jvm


class IcebergRows(FrameReader):
    changing: ClassVar[Mapping[str, str]] = {"expire_data": "old rows go, by intent"}

    def newest(self) -> str | None:
        current = tables.load(self.job).currentSnapshot()
        return None if current is None else str(current.snapshotId())

    def steps(self, result: Document) -> Sequence[Step]:
        """By the tag in the summary, and the parent that each snapshot names.

        A rewrite that drops dangling deletes does so in a commit of its own without our tag. What follows ours and says
        that it only replaces files belongs to the step, whoever made it: it must not change rows either.
        """
        tag, steps = operation_tag(self.job.parameters), list[Step]()
        for one in self._snapshots():
            parent, summary = str(one.get("parent-snapshot-id")), one.get("summary") or {}
            follows = bool(steps) and steps[-1].after == parent
            if summary.get(tables.TAG) == tag or (follows and summary.get("operation") == "replace"):
                steps.append(Step(steps.pop().before if follows else parent, str(one["snapshot-id"])))
        return steps

    def is_there(self, state: str) -> bool:
        return any(str(one["snapshot-id"]) == state for one in self._snapshots())

    def frame(self, state: str) -> DataFrame:
        table = tables.load(self.job)
        outside.refuse_foreign_files(self.job, table)
        util = jvm(self.job.session).org.apache.iceberg.spark.SparkTableUtil
        number = jvm(self.job.session).java.lang.Long.parseLong(state)
        return DataFrame(util.loadTable(self.job.session._jsparkSession, table, number), self.job.session)

    def exact_count(self, state: str) -> int | None:
        """From the summary, where no delete file takes rows away."""
        summaries = (one.get("summary") or {} for one in self._snapshots() if str(one["snapshot-id"]) == state)
        summary = next(summaries, {})
        is_exact = summary.get("total-delete-files") == "0" and "total-records" in summary
        return int(summary["total-records"]) if is_exact else None

    def _snapshots(self) -> list[dict[str, Any]]:
        """In the order of their commits."""
        table = tables.load(self.job)
        found = tables.document(self.job.session, table.operations().current()).get("snapshots") or []
        return sorted(found, key=lambda one: (one.get("sequence-number", 0), one["timestamp-ms"]))


READER = IcebergRows
