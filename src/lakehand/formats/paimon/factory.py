# SPDX-License-Identifier: Apache-2.0
"""The process factory of Paimon: compaction, expiry of snapshots and removal of orphans, planned by ourselves."""

from collections.abc import Mapping, Set
from datetime import timedelta
from typing import Any, ClassVar

from lakehand.formats.paimon import admissions, compaction, expiry, failures, orphans, settings, sorting, verdicts
from lakehand.formats.paimon.settings import COMPACT, EXPIRE, ORPHANS
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.formats.paimon.table import PAIMON
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
    StateKey,
    TableProcess,
    TableRuntime,
    Verdict,
    at_fixed_rate,
    pause,
)

STRATEGIES: Mapping[Action, ProcessTriggerStrategy] = {
    COMPACT: ProcessTriggerStrategy(interval=timedelta(hours=6), on_new_snapshot=True),
    EXPIRE: ProcessTriggerStrategy(interval=timedelta(hours=1), on_new_snapshot=True),
    ORPHANS: at_fixed_rate(timedelta(days=1), parallelism=4),
}


class PaimonProcessFactory(ProcessFactory):
    name: ClassVar[str] = "paimon"

    def __init__(self) -> None:
        self._floors = settings.Floors()

    def open(self, properties: Mapping[str, str]) -> None:
        self._floors = settings.floors_of(properties)

    def required_states(self) -> Set[StateKey[Any]]:
        return frozenset({sorting.SORTED})

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {PAIMON: frozenset(STRATEGIES)}

    def trigger_strategy(self, format: Format, action: Action) -> ProcessTriggerStrategy:
        return STRATEGIES[action]

    def dry_run_actions(self) -> frozenset[Action]:
        return frozenset({EXPIRE, ORPHANS})

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        if waiting := pause(table, action):
            return waiting
        if action == COMPACT:
            return compaction.decide(table, paimon(table))
        decide = expiry.decide if action == EXPIRE else orphans.decide
        return decide(table, paimon(table), self._floors)

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop | Failure:
        return admissions.admit(table, paimon(table), operation, self._floors)

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        try:
            return verdicts.verify(table, paimon(table), process, result)
        except Invalid as error:
            return Verdict(finding=Finding.GONE, reason=str(error))
        except OSError as error:
            return Verdict(finding=Finding.UNREADABLE, reason=f"the table cannot be read: {error}")

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        return failures.classify(operation.process.action, status)

    def recover(self, table: TableRuntime, stored: Operation) -> TableProcess:
        if stored.process.action not in STRATEGIES:
            raise RecoverProcessFailed(f"operation {stored.id} is a {stored.process.action}, unknown to Paimon tables")
        return stored.process


def paimon(table: TableRuntime) -> PaimonSnapshot:
    snapshot = table.snapshot()
    assert isinstance(snapshot, PaimonSnapshot)
    return snapshot
