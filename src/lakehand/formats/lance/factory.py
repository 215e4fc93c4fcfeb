# SPDX-License-Identifier: Apache-2.0
"""The process factory of Lance: compact and clean-versions, decided from fragments and manifests."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from lakehand.formats.lance import admissions, failures, settings, triggers, verdicts
from lakehand.formats.lance.snapshot import CLEAN_VERSIONS, COMPACT, LanceSnapshot
from lakehand.formats.lance.table import LANCE
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
    ProcessTriggerStrategy,
    RecoverProcessFailed,
    Skip,
    TableProcess,
    TableRuntime,
    Verdict,
    at_fixed_rate,
)

ACTIONS = frozenset({COMPACT, CLEAN_VERSIONS})
STRATEGIES = {
    COMPACT: ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True),
    CLEAN_VERSIONS: at_fixed_rate(timedelta(days=1)),
}


class LanceProcessFactory(ProcessFactory):
    name: ClassVar[str] = "lance"

    def __init__(self) -> None:
        self._floors = settings.Floors()

    def open(self, properties: Mapping[str, str]) -> None:
        self._floors = settings.floors_of(properties)

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {LANCE: ACTIONS}

    def trigger_strategy(self, format: Format, action: Action) -> ProcessTriggerStrategy:
        return STRATEGIES[action]

    def dry_run_actions(self) -> frozenset[Action]:
        return frozenset({CLEAN_VERSIONS})

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        return triggers.waiting(table, action) or triggers.decide(table, lance(table), action, self._floors)

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop | Failure:
        return admissions.admit(table, lance(table), operation, self._floors)

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        try:
            return verdicts.verify(lance(table), process, result)
        except Invalid as error:
            return Verdict(finding=Finding.GONE, reason=str(error))
        except OSError as error:
            return Verdict(finding=Finding.UNREADABLE, reason=f"the table cannot be read: {error}")

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        return failures.classify(status)

    def recover(self, table: TableRuntime, stored: Operation) -> TableProcess:
        if stored.process.action not in ACTIONS:
            raise RecoverProcessFailed(f"operation {stored.id} is a {stored.process.action}, which Lance does not have")
        return stored.process


def lance(table: TableRuntime) -> LanceSnapshot:
    snapshot = table.snapshot()
    assert isinstance(snapshot, LanceSnapshot)
    return snapshot
