# SPDX-License-Identifier: Apache-2.0
"""A plugin for tests: tables whose timeline is two folders, and a job whose effect is one file in the table.

It takes the place of Hudi's, so that requests of Hudi's client reach it. Each effect has the name of its attempt: a
plan that was run twice has two files.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakehand.jobs.job import Job
from lakehand.spi import (
    Action,
    Drop,
    Finding,
    Format,
    Instant,
    Json,
    Operation,
    ProcessFactory,
    Skip,
    TableFormat,
    TableProcess,
    TableReference,
    TableRuntime,
    Verdict,
)

HUDI = Format("hudi")
COMPACTION = Action.register("compaction")
SECONDS = float(os.environ.get("PLAN_SECONDS", "0.5"))  # that a job takes, so that some always run


@dataclass(frozen=True)
class Timeline:
    token: str
    numbers: Mapping[str, Json] = field(default_factory=dict)


class PlanFolders(TableFormat):
    format = HUDI

    def probe(self, reference: TableReference) -> str:
        location = Path(reference.location)
        return f"{len(plans(location))} plans, {len(effects(location))} effects"

    def inspect(self, reference: TableReference) -> Timeline:
        return Timeline(token=self.probe(reference))


class PlanFactory(ProcessFactory):
    name = "plan-folders"

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {HUDI: frozenset({COMPACTION})}

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        location = Path(table.table.location)
        known = {str(o.instant) for o in table.operations()} | set(effects(location))
        todo = [instant for instant in plans(location) if instant not in known]
        if not todo:
            return Skip(reason="no plan is pending")
        return TableProcess(action=action, instant=Instant(todo[0]), engine="subprocess", reason="a plan is pending")

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Drop:
        location, instant = Path(table.table.location), str(operation.instant)
        if instant in effects(location) or instant not in plans(location):
            return Drop(reason="it is done already, or its plan is gone")
        given = {"location": str(location), "instant": instant}
        return replace(operation.process, engine="subprocess", job="plan_folders:run", parameters=given)

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        is_done = process.parameters["instant"] in effects(Path(table.table.location))
        return Verdict(finding=Finding.DONE if is_done else Finding.NOT_DONE, reason="the file shows it")


def plans(location: Path) -> list[str]:
    return sorted(file.name for file in (location / "plans").iterdir())


def effects(location: Path) -> list[str]:
    """The instant of each effect; one that was run twice is there twice."""
    return sorted(file.name.partition(".")[0] for file in (location / "effects").iterdir())


def run(job: Job) -> dict[str, Json]:
    time.sleep(SECONDS)
    job.check()
    (Path(job.parameters["location"]) / "effects" / f"{job.parameters['instant']}.{job.handle}").touch(exist_ok=False)
    return {"files": 1}
