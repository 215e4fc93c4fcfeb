# SPDX-License-Identifier: Apache-2.0
"""The process factory of Paimon: compaction, expiry of snapshots and removal of orphans, planned by ourselves."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, ClassVar

from lakehand.formats.paimon import verdicts
from lakehand.formats.paimon.compaction import SORTED, compaction_limits, decide_compact
from lakehand.formats.paimon.expiry import decide_expire, expiry_limits
from lakehand.formats.paimon.failures import RULES
from lakehand.formats.paimon.orphans import decide_orphans, orphan_limits
from lakehand.formats.paimon.settings import COMPACT, EXPIRE, ORPHANS, PaimonContext, paimon_settings
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.formats.paimon.table import PAIMON
from lakehand.spi import (
    Action,
    Format,
    Json,
    ProcessTriggerStrategy,
    Skip,
    StateKey,
    TableProcess,
    TableRuntime,
    Verdict,
    at_fixed_rate,
)
from lakehand.spi.kit import BEFORE, FailureRule, FormatSettings, Need, PlanningFactory

DECISIONS: Mapping[Action, Callable[[PaimonContext], Need | Skip]] = {
    COMPACT: decide_compact,
    EXPIRE: decide_expire,
    ORPHANS: decide_orphans,
}
LIMITS: Mapping[Action, Callable[[PaimonContext], dict[str, Json]]] = {
    COMPACT: compaction_limits,
    EXPIRE: expiry_limits,
    ORPHANS: orphan_limits,
}


class PaimonProcessFactory(PlanningFactory[PaimonSnapshot]):
    name: ClassVar[str] = "paimon"
    format: ClassVar[Format] = PAIMON
    strategies: ClassVar[Mapping[Action, ProcessTriggerStrategy]] = {
        COMPACT: ProcessTriggerStrategy(interval=timedelta(hours=6), on_new_snapshot=True),
        EXPIRE: ProcessTriggerStrategy(interval=timedelta(hours=1), on_new_snapshot=True),
        ORPHANS: at_fixed_rate(timedelta(days=1), parallelism=4),
    }
    dry_runs: ClassVar[frozenset[Action]] = frozenset({EXPIRE, ORPHANS})
    rules: ClassVar[tuple[FailureRule, ...]] = RULES
    states: ClassVar[tuple[StateKey[Any], ...]] = (SORTED,)
    snapshot_type = PaimonSnapshot

    def make_settings(self) -> FormatSettings:
        return paimon_settings()

    def decide(self, context: PaimonContext) -> Need | Skip:
        return DECISIONS[context.action](context)

    def has_committed(self, context: PaimonContext) -> bool:
        operation = context.operation
        if operation is None or context.action != COMPACT:
            return False
        before = operation.process.parameters.get(BEFORE)
        return bool(context.snapshot.tagged(operation.tag, after=before if isinstance(before, int) else 0))

    def parameters(self, context: PaimonContext, need: Need) -> Mapping[str, Json]:
        """Whatever we committed is younger than the newest snapshot at the first admission."""
        reference = context.table.reference
        return {
            "identity": context.snapshot.identity,
            "catalog": reference.catalog.name if reference.catalog else None,
            "db_name": reference.db_name,
            "table_name": reference.table_name,
            BEFORE: context.first(BEFORE, context.snapshot.latest),
            **LIMITS[context.action](context),
        }

    def verify_effect(
        self, table: TableRuntime, snapshot: PaimonSnapshot, process: TableProcess, result: Mapping[str, Json]
    ) -> Verdict:
        return verdicts.verify(table, snapshot, process, result)
