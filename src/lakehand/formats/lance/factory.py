# SPDX-License-Identifier: Apache-2.0
"""The process factory of Lance: its actions, each in a file of its own, and what all of their jobs must know."""

from collections.abc import Mapping
from typing import ClassVar

from lakehand.formats.lance.clean_versions import CLEAN_VERSIONS
from lakehand.formats.lance.compact import COMPACT
from lakehand.formats.lance.context import RULES, LanceContext
from lakehand.formats.lance.optimize_indices import OPTIMIZE_INDICES
from lakehand.formats.lance.snapshot import LanceSnapshot
from lakehand.formats.lance.table import LANCE
from lakehand.spi import Json, Skip
from lakehand.spi.kit import BEFORE, Actions, Need, PlanningFactory


class LanceProcessFactory(PlanningFactory[LanceSnapshot]):
    name = "lance"
    format = LANCE
    actions: ClassVar[Actions] = (COMPACT, CLEAN_VERSIONS, OPTIMIZE_INDICES)
    rules = RULES
    snapshot_type = LanceSnapshot

    def decide(self, context: LanceContext) -> Need | Skip:
        need = super().decide(context)
        return Need(reason=f"asked for; {need.reason}") if context.by_person and isinstance(need, Skip) else need

    def parameters(self, context: LanceContext, need: Need) -> Mapping[str, Json]:
        limits = super().parameters(context, need)
        return {BEFORE: context.snapshot.version, "identity": context.snapshot.identity, **limits}
