# SPDX-License-Identifier: Apache-2.0
"""The service in small: what the factory wants for a table is admitted, run as a job, and verified by the table."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job
from lakehand.spi import Action, Finding, Operation, Scheduling, Skip, TableProcess, Verdict
from lakehand.testing.harness import boundary_parameter
from tests import hudi_tables as hudi
from tests.formats.hudi.runtime import FILE_LOCK, MemoryRuntime, operation

# A writer that shares its lock with the service, and the thresholds of these tests.
LOCKING = {
    **FILE_LOCK,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
SERVICE = {
    **FILE_LOCK,
    "hudi.compaction.delta-commits": "2",
    "hudi.clustering.commits": "2",
    "hudi.clustering.order-columns": "v,id",
    "hudi.clean.commits": "2",
    "hudi.clean.retain-commits": "2",
    "hudi.archive.min-commits": "4",
    "hudi.archive.max-commits": "5",
    "hudi.log-compaction.delta-commits": "2",
    "hudi.log-compaction.min-blocks": "2",
}


@dataclass(frozen=True, kw_only=True)
class Service:
    spark: SparkSession
    path: Path
    scheduling: Scheduling = Scheduling.WRITER
    properties: Mapping[str, str] | None = None

    def runtime(self) -> MemoryRuntime:
        return MemoryRuntime(self.path, scheduling=self.scheduling, properties=self.properties)

    def wants(self, action: str) -> TableProcess | Skip:
        return HudiProcessFactory().trigger(self.runtime(), Action(action))

    def admitted(self, action: str) -> TableProcess:
        wanted = self.wants(action)
        assert isinstance(wanted, TableProcess), wanted
        return self.admit(operation(wanted))

    def admit(self, stored: Operation) -> TableProcess:
        admitted = HudiProcessFactory().admit(self.runtime(), stored)
        assert isinstance(admitted, TableProcess), admitted
        boundary = boundary_parameter(str(self.path))
        return replace(admitted, parameters={**admitted.parameters, "boundary": boundary})

    def admitted_again(self, process: TableProcess) -> TableProcess:
        """For the next attempt, after one whose result is lost."""
        return self.admit(operation(process, run_times=1))

    def execute(self, process: TableProcess) -> dict[str, Any]:
        job = Job(self.spark.newSession(), dict(process.parameters), handle="7-1")
        result: dict[str, Any] = job_called(process.job)(job)
        return result

    def verdict(self, process: TableProcess, result: Mapping[str, Any]) -> Verdict:
        return HudiProcessFactory().verify(self.runtime(), process, result)

    def serve(self, action: str, *, lost: Finding = Finding.DONE) -> list[str]:
        """Do what the table needs, and prove that it was done once and that nothing else was. Returns the instants.

        ``lost``: what the timeline alone shows, if the result of the job is lost.
        """
        process = self.admitted(action)
        with unchanged(self.spark, self.path):
            result = self.execute(process)
        verdict = self.verdict(process, result)
        assert verdict.finding is Finding.DONE, verdict
        assert isinstance(self.wants(action), Skip), "what was done must not be wanted again"
        assert self.verdict(process, {}).finding is lost
        assert result["instants"], verdict
        assert all(len(hudi.completed(self.path, instant)) == 1 for instant in result["instants"])
        instants: list[str] = result["instants"]
        return instants


@contextmanager
def unchanged(spark: SparkSession, path: Path) -> Iterator[None]:
    """Rows, properties, indexes and the metadata table are the same before and after."""
    before = table_state(spark, path)
    yield
    assert table_state(spark, path) == before


def table_state(spark: SparkSession, path: Path) -> dict[str, Any]:
    definitions = path / ".hoodie" / ".index_defs" / "index.json"
    metadata = path / ".hoodie" / "metadata"
    return {
        "rows": hudi.rows(spark, path),
        "rows without metadata table": hudi.rows(spark, path, **{"hoodie.metadata.enable": "false"}),
        "properties": hudi.properties(path),
        "indexes": definitions.read_text() if definitions.exists() else None,
        "metadata table": sorted(f.name for f in metadata.iterdir() if f.name != ".hoodie")
        if metadata.exists()
        else None,
    }
