# SPDX-License-Identifier: Apache-2.0
"""Reads the rows of a Delta table at one of its versions."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql import DataFrame, functions

from lakehand.jobs.delta import tables
from lakehand.jobs.rows import Document, FrameReader, Step, in_a_row
from lakehand.jobs.spark import hadoop, jvm


class DeltaRows(FrameReader):
    changing: ClassVar[Mapping[str, str]] = {"expire_data": "old rows go, by intent"}

    def newest(self) -> str | None:
        return str(tables.newest_version(self.job).version())

    def steps(self, result: Document) -> Sequence[Step]:
        return in_a_row([int(one["version"]) for one in tables.own_commits(self.job)])

    def is_there(self, state: str) -> bool:
        files, path = hadoop(self.job.session, f"{self.job.boundary.real}/_delta_log/{int(state):020d}.json")
        return bool(files.exists(path))

    def frame(self, state: str) -> DataFrame:
        tables.refuse_foreign_files(self.job, self._snapshot_at(int(state)))
        return self.job.session.read.format("delta").option("versionAsOf", state).load(self.job.boundary.real)

    def exact_count(self, state: str) -> int | None:
        """From the statistics of its files and the cardinality of their deletion vectors, if all files have them."""
        files = DataFrame(self._snapshot_at(int(state)).allFiles().toDF(), self.job.session)
        rows = functions.get_json_object("stats", "$.numRecords").cast("bigint")
        deleted = functions.coalesce(functions.col("deletionVector.cardinality"), functions.lit(0))
        totals = files.select(functions.count(functions.lit(1)), functions.count(rows), functions.sum(rows - deleted))
        [(count, known, total)] = totals.collect()
        return int(total or 0) if count == known else None

    def _snapshot_at(self, version: int) -> Any:
        return self._log.getSnapshotAt(version, *self._defaults)

    @property
    def _log(self) -> Any:
        logs = jvm(self.job.session).org.apache.spark.sql.delta.DeltaLog
        return logs.forTable(self.job.session._jsparkSession, self.job.boundary.real)

    @property
    def _defaults(self) -> tuple[Any, ...]:
        """Scala's default arguments, which Java's callers have to name."""
        return tuple(getattr(self._log, f"getSnapshotAt$default${number}")() for number in (2, 3))


READER = DeltaRows
