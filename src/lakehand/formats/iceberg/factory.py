# SPDX-License-Identifier: Apache-2.0
"""The process factory of Iceberg: rewrites of data, deletes and manifests, expiry of snapshots, removal of orphans."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from lakehand.formats.iceberg import decisions, verdicts
from lakehand.formats.iceberg.failures import RULES
from lakehand.formats.iceberg.settings import IcebergContext, iceberg_settings
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
    Format,
    Json,
    ProcessTriggerStrategy,
    Skip,
    TableProcess,
    TableRuntime,
    Verdict,
    at_fixed_rate,
)
from lakehand.spi.kit import FailureRule, FormatSettings, Need, PlanningFactory

# Rewrites follow commits; what only time makes necessary follows time.
ON_COMMIT = ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True)


class IcebergProcessFactory(PlanningFactory[IcebergSnapshot]):
    name: ClassVar[str] = "iceberg"
    format: ClassVar[Format] = ICEBERG
    strategies: ClassVar[Mapping[Action, ProcessTriggerStrategy]] = {
        REWRITE_DATA: ON_COMMIT,
        REWRITE_POSITION_DELETES: ON_COMMIT,
        REWRITE_MANIFESTS: ON_COMMIT,
        EXPIRE_SNAPSHOTS: at_fixed_rate(timedelta(hours=6)),
        REMOVE_ORPHANS: at_fixed_rate(timedelta(days=1), parallelism=2),
    }
    dry_runs: ClassVar[frozenset[Action]] = frozenset({EXPIRE_SNAPSHOTS, REMOVE_ORPHANS})
    rules: ClassVar[tuple[FailureRule, ...]] = RULES
    snapshot_type = IcebergSnapshot

    def make_settings(self) -> FormatSettings:
        return iceberg_settings()

    def decide(self, context: IcebergContext) -> Need | Skip:
        return decisions.decide(context)

    def not_now(self, context: IcebergContext) -> Skip | None:
        return decisions.not_now(context)

    def parameters(self, context: IcebergContext, need: Need) -> Mapping[str, Json]:
        return decisions.parameters(context)

    def verify_effect(
        self, table: TableRuntime, snapshot: IcebergSnapshot, process: TableProcess, result: Mapping[str, Json]
    ) -> Verdict:
        return verdicts.verify(snapshot, process, result)
