# SPDX-License-Identifier: Apache-2.0
"""The process factory of Lance: compact and clean-versions, decided from fragments and manifests."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from lakehand.formats.lance import decisions, verdicts
from lakehand.formats.lance.failures import RULES
from lakehand.formats.lance.settings import COOL_DOWN, LanceContext, lance_settings
from lakehand.formats.lance.snapshot import CLEAN_VERSIONS, COMPACT, LanceSnapshot
from lakehand.formats.lance.table import LANCE
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
from lakehand.spi.kit import FailureRule, FormatSettings, Need, PlanningFactory, Values


class LanceProcessFactory(PlanningFactory[LanceSnapshot]):
    name: ClassVar[str] = "lance"
    format: ClassVar[Format] = LANCE
    strategies: ClassVar[Mapping[Action, ProcessTriggerStrategy]] = {
        COMPACT: ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True),
        CLEAN_VERSIONS: at_fixed_rate(timedelta(days=1)),
    }
    dry_runs: ClassVar[frozenset[Action]] = frozenset({CLEAN_VERSIONS})
    rules: ClassVar[tuple[FailureRule, ...]] = RULES
    snapshot_type = LanceSnapshot

    def make_settings(self) -> FormatSettings:
        return lance_settings()

    def cool_down(self, values: Values, action: Action) -> timedelta:
        return values[COOL_DOWN[action]]

    def decide(self, context: LanceContext) -> Need | Skip:
        return decisions.decide(context)

    def parameters(self, context: LanceContext, need: Need) -> Mapping[str, Json]:
        return decisions.parameters(context)

    def verify_effect(
        self, table: TableRuntime, snapshot: LanceSnapshot, process: TableProcess, result: Mapping[str, Json]
    ) -> Verdict:
        return verdicts.verify(snapshot, process, result)
