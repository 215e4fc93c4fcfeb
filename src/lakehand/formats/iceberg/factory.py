# SPDX-License-Identifier: Apache-2.0
"""The process factory of Iceberg: rewrites of data, deletes and manifests, expiry of snapshots, removal of orphans."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from lakehand.formats.iceberg import admissions, failures, settings, triggers, verdicts
from lakehand.formats.iceberg.snapshot import (
    EXPIRE_SNAPSHOTS,
    REMOVE_ORPHANS,
    REWRITE_DATA,
    REWRITE_MANIFESTS,
    REWRITE_POSITION_DELETES,
    IcebergSnapshot,
)
from lakehand.formats.iceberg.table import ICEBERG
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

# Rewrites follow commits; what only time makes necessary follows time.
ON_COMMIT = ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True)
STRATEGIES: Mapping[Action, ProcessTriggerStrategy] = {
    REWRITE_DATA: ON_COMMIT,
    REWRITE_POSITION_DELETES: ON_COMMIT,
    REWRITE_MANIFESTS: ON_COMMIT,
    EXPIRE_SNAPSHOTS: at_fixed_rate(timedelta(hours=6)),
    REMOVE_ORPHANS: at_fixed_rate(timedelta(days=1), parallelism=2),
}


class IcebergProcessFactory(ProcessFactory):
    name: ClassVar[str] = "iceberg"

    def __init__(self) -> None:
        self._floors = settings.Floors()

    def open(self, properties: Mapping[str, str]) -> None:
        self._floors = settings.floors_of(properties)

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {ICEBERG: frozenset(STRATEGIES)}

    def trigger_strategy(self, format: Format, action: Action) -> ProcessTriggerStrategy:
        return STRATEGIES[action]

    def dry_run_actions(self) -> frozenset[Action]:
        return admissions.DRY_RUNS

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        return triggers.decide(table, iceberg(table), action, self._floors)

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop | Failure:
        return admissions.admit(table, iceberg(table), operation, self._floors)

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        try:
            return verdicts.verify(iceberg(table), process, result)
        except Invalid as error:
            return Verdict(finding=Finding.GONE, reason=str(error))
        except OSError as error:
            return Verdict(finding=Finding.UNREADABLE, reason=f"the metadata cannot be read: {error}")

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        return failures.classify(table.table, operation, status)

    def recover(self, table: TableRuntime, stored: Operation) -> TableProcess:
        if stored.process.action not in STRATEGIES:
            raise RecoverProcessFailed(f"operation {stored.id} is a {stored.process.action}: Iceberg does not have it")
        return stored.process


def iceberg(table: TableRuntime) -> IcebergSnapshot:
    snapshot = table.snapshot()
    assert isinstance(snapshot, IcebergSnapshot)
    return snapshot
