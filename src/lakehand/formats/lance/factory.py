# SPDX-License-Identifier: Apache-2.0
"""The process factory of Lance: compact, clean-versions and optimize-indices, decided from its manifests."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from lakehand.formats.lance import compact, optimize_indices, settings, verdicts
from lakehand.formats.lance.settings import LanceContext
from lakehand.formats.lance.snapshot import CLEAN_VERSIONS, COMPACT, OPTIMIZE_INDICES, LanceSnapshot
from lakehand.formats.lance.table import LANCE
from lakehand.spi import Json, ProcessTriggerStrategy, Skip, at_fixed_rate
from lakehand.spi.kit import BEFORE, ActionRow, Actions, Need, PlanningFactory

DAY = timedelta(days=1)


class LanceProcessFactory(PlanningFactory[LanceSnapshot]):
    name = "lance"
    format = LANCE
    actions: ClassVar[Actions] = {
        COMPACT: ActionRow(
            strategy=ProcessTriggerStrategy(interval=DAY, on_new_snapshot=True), decide=compact.decide_compact,
            limits=compact.compaction_limits, verify=verdicts.verify_rewrite,
        ),
        CLEAN_VERSIONS: ActionRow(
            strategy=at_fixed_rate(DAY), decide=compact.decide_clean, limits=compact.cleaning_limits,
            verify=verdicts.verify_cleaning, has_dry_run=True,
        ),
        OPTIMIZE_INDICES: ActionRow(
            strategy=ProcessTriggerStrategy(interval=DAY, on_new_snapshot=True),
            decide=optimize_indices.decide_optimize,
            limits=optimize_indices.optimizing_limits, verify=verdicts.verify_optimizing,
        ),
    }  # fmt: skip
    rows = settings.ROWS
    rules = verdicts.RULES
    snapshot_type = LanceSnapshot

    def cool_down(self, context: LanceContext) -> timedelta:
        return context.values[settings.COOL_DOWN[context.action]]

    def decide(self, context: LanceContext) -> Need | Skip:
        need = super().decide(context)
        return Need(reason=f"asked for; {need.reason}") if context.by_person and isinstance(need, Skip) else need

    def parameters(self, context: LanceContext, need: Need) -> Mapping[str, Json]:
        limits = super().parameters(context, need)
        return {BEFORE: context.snapshot.version, "identity": context.snapshot.identity, **limits}
