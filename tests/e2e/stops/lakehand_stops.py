# SPDX-License-Identifier: Apache-2.0
"""An outside plugin for crash tests: the real decisions and the real jobs, which stop once at a chosen point."""

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from threading import Event, Thread, get_ident
from time import sleep
from typing import Any

from lakehand.spi import (
    Action,
    Drop,
    EngineStatus,
    Failure,
    Format,
    Json,
    Operation,
    ProcessFactory,
    ProcessTriggerStrategy,
    Skip,
    TableProcess,
    TableRuntime,
    Verdict,
)

REAL = "real_job"
# What each job says last before its effect is in the table: all that it prepared is there by then.
LAST_PHASES = {
    "hudi.archive": "archiving",  # with the table's lock
    "hudi.rollback_failed_writes": "rolling back",  # with the lock, too
    "hudi.log_compaction": "waiting to commit",  # the merged blocks are written
    "hudi.indexing": "executing",  # the plan is on the timeline
    "hudi.partition_ttl": "dropping",  # the replacement is on the timeline, with the lock
    "iceberg.compute_statistics": "setting",  # the file is written
    "iceberg.compute_partition_statistics": "setting",
    "delta.checkpoint": "naming",  # the checkpoint is written
    "delta.clean_log": "deleting",
    "paimon.expire_partitions": "committing",
    "paimon.expire_tags": "deleting",
    "lance.optimize_indices": "optimising",
    "lance.compact": "committing",  # the fragments are written
}
# By how the names of tables begin: a job that loses rows, and one that stops before it compares them.
MOMENTS = {"broken": "broken", "sound": "comparing"}


class StoppingFactory(ProcessFactory):
    """Takes every pair that Lakehand's own factories have, by priority."""

    name = "stopping"

    def __init__(self) -> None:
        found = [e.load()() for e in entry_points(group="lakehand.process_factories") if e.name != self.name]
        self.real: dict[Format, ProcessFactory] = {
            name: one for one in found if isinstance(one, ProcessFactory) for name in one.supported_actions()
        }

    def open(self, properties: Mapping[str, str]) -> None:
        for one in set(self.real.values()):
            one.open({})

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {name: one.supported_actions()[name] for name, one in self.real.items()}

    def dry_run_actions(self) -> frozenset[Action]:
        return frozenset(action for one in self.real.values() for action in one.dry_run_actions())

    def trigger_strategy(self, format: Format, action: Action) -> ProcessTriggerStrategy:
        return self.real[format].trigger_strategy(format, action)

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        return self.real[table.table.format].trigger(table, action)

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop | Failure:
        answer = self.real[table.table.format].admit(table, operation)
        if not isinstance(answer, TableProcess):
            return answer
        return replace(answer, job="lakehand_stops:run", parameters={**answer.parameters, REAL: answer.job})

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        real = replace(process, job=str(process.parameters.get(REAL) or process.job))
        return self.real[table.table.format].verify(table, real, result)

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        return self.real[table.table.format].classify(table, operation, status)


def run(job: Any) -> Any:
    """The real job. Its first attempt stops at a moment, and never says so."""
    from lakehand.jobs.attempt import job_called

    name, reference = job.parameters.pop(REAL), Path(job.parameters["location"])
    real, mark, moment = job_called(name), Path(os.environ["STOPS"]) / reference.name, moment_of(reference.name)
    if moment == "broken":
        from lakehand_breaks import run_broken  # type: ignore[import-not-found]

        return run_broken(job, name)
    if mark.exists():
        return real(job)
    if moment == "comparing":
        stop_at(job, "reading the rows after", mark)
    if moment == "canceled":
        wait_until_canceled(job, mark)
    if moment == "middle":
        stop_at(job, LAST_PHASES[name], mark) if name in LAST_PHASES else stop_while_writing(job, reference, mark)
    result = real(job)
    mark.touch()
    Event().wait()
    return result


run.verifies_rows = True  # type: ignore[attr-defined]


def moment_of(table: str) -> str:
    """By the first word of the table's name, else the one that STOP names for all others."""
    return MOMENTS.get(table.partition("_")[0]) or os.environ["STOP"]


def stop_at(job: Any, phase: str, mark: Path) -> None:
    """The job comes to a phase, and never goes on. The driver's own thread does."""
    publish, own = job.record.publish, get_ident()

    def stop() -> None:
        publish()
        if job.record.phase.startswith(phase) and get_ident() == own:
            mark.touch()
            Event().wait()

    job.record.publish = stop


def wait_until_canceled(job: Any, mark: Path) -> None:
    """Before anything is read or written; a cancel ends it as it ends every job."""
    mark.touch()
    while True:
        job.check()
        sleep(0.05)


def stop_while_writing(job: Any, reference: Path, mark: Path) -> None:
    """Once there is a new file, the JVM's thread that commits for this job does not come back from waiting for it."""
    committer, known = job.session._jvm.java.lang.Thread.currentThread(), data_files(reference)

    def watch() -> None:
        while not data_files(reference) - known:
            sleep(0.005)
        committer.suspend()
        mark.touch()

    Thread(target=watch, daemon=True).start()


def data_files(reference: Path) -> set[str]:
    """Read two hundred times a second for each table: pathlib would keep a core busy."""
    return {name for _, _, names in os.walk(reference) for name in names if name.endswith((".parquet", ".lance"))}
