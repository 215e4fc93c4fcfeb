# SPDX-License-Identifier: Apache-2.0
"""The process factory of Hudi: compaction, clustering and clean, from plans of the writer or of our own."""

from collections.abc import Mapping
from typing import ClassVar

from lakehand.formats.hudi import admissions, failures, settings, triggers, verdicts
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION, HudiSnapshot
from lakehand.formats.hudi.table import HUDI
from lakehand.spi import (
    Action,
    Drop,
    EngineStatus,
    Failure,
    Finding,
    Format,
    Invalid,
    Json,
    Operation,
    ProcessFactory,
    RecoverProcessFailed,
    Skip,
    TableProcess,
    TableRuntime,
    Verdict,
)

ACTIONS = frozenset({COMPACTION, CLUSTERING, CLEAN})


class HudiProcessFactory(ProcessFactory):
    name: ClassVar[str] = "hudi"

    def __init__(self) -> None:
        self._floors = settings.Floors()

    def open(self, properties: Mapping[str, str]) -> None:
        self._floors = settings.floors_of(properties)

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {HUDI: ACTIONS}

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        return triggers.decide(table, hudi(table), action, self._floors)

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop | Failure:
        return admissions.admit(table, hudi(table), operation, self._floors)

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        try:
            return verdicts.verify(hudi(table), process, result)
        except Invalid as error:
            return Verdict(finding=Finding.GONE, reason=str(error))
        except OSError as error:
            return Verdict(finding=Finding.UNREADABLE, reason=f"the timeline cannot be read: {error}")

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        return failures.classify(status)

    def recover(self, table: TableRuntime, stored: Operation) -> TableProcess:
        if stored.process.action not in ACTIONS:
            raise RecoverProcessFailed(f"operation {stored.id} is a {stored.process.action}, which Hudi does not have")
        return stored.process


def hudi(table: TableRuntime) -> HudiSnapshot:
    snapshot = table.snapshot()
    assert isinstance(snapshot, HudiSnapshot)
    return snapshot
