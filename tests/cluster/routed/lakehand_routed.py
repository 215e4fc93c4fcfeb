# SPDX-License-Identifier: Apache-2.0
"""An outside plugin for tests of clusters: the real decisions and jobs, on the engine that a table's name asks for.

Each job stops once it has written a file and before it has committed, until the test lets it go on.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from threading import Thread
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
ALONE = "alone"  # how the names of tables end whose work gets an application of its own


class RoutedFactory(ProcessFactory):
    """Takes every pair that Lakehand's own factories have, by priority."""

    name = "routed"

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

    def trigger_strategy(self, format: Format, action: Action) -> ProcessTriggerStrategy:
        return self.real[format].trigger_strategy(format, action)

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        return self.real[table.table.format].trigger(table, action)

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop | Failure:
        answer = self.real[table.table.format].admit(table, operation)
        if not isinstance(answer, TableProcess):
            return answer
        engine = "spark-submit" if table.table.location.endswith(ALONE) else "spark"
        parameters = {**answer.parameters, REAL: answer.job}
        return replace(answer, engine=engine, job="lakehand_routed:run", parameters=parameters)

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        real = replace(process, job=str(process.parameters.get(REAL) or process.job))
        return self.real[table.table.format].verify(table, real, result)

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        return self.real[table.table.format].classify(table, operation, status)


def run(job: Any) -> Any:
    from lakehand.jobs.attempt import job_called

    name, reference = job.parameters.pop(REAL), Path(job.parameters["location"])
    marks = Path(os.environ["MARKS"])
    pause_while_writing(job, reference, marks / reference.name, marks / "go")
    return job_called(name)(job)


def pause_while_writing(job: Any, reference: Path, mark: Path, go: Path) -> None:
    """Once there is a new file, the JVM's thread that commits for this job waits until the test says so."""
    committer, known = job.session._jvm.java.lang.Thread.currentThread(), data_files(reference)

    def watch() -> None:
        while not data_files(reference) - known:
            sleep(0.02)
        committer.suspend()
        mark.touch()
        while not go.exists():
            sleep(0.05)
        committer.resume()

    Thread(target=watch, daemon=True).start()


def data_files(reference: Path) -> set[str]:
    """Read fifty times a second for each table: pathlib would keep a core busy."""
    return {name for _, _, names in os.walk(reference) for name in names if name.endswith((".parquet", ".lance"))}
