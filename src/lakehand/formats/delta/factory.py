# SPDX-License-Identifier: Apache-2.0
"""The process factory of Delta: optimize, z-order, vacuum and purge, decided from the log."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, ClassVar

from lakehand.formats.delta import verdicts
from lakehand.formats.delta.failures import RULES
from lakehand.formats.delta.log import info_of
from lakehand.formats.delta.protocol import why_unknown
from lakehand.formats.delta.rewrites import decide_optimize, decide_purge
from lakehand.formats.delta.settings import (
    FEATURES,
    FULL,
    OPTIMIZE,
    PURGE,
    VACUUM,
    Z_ORDER,
    DeltaContext,
    delta_settings,
)
from lakehand.formats.delta.snapshot import DeltaSnapshot, tagged
from lakehand.formats.delta.table import DELTA
from lakehand.formats.delta.vacuum import LAST_FULL, START, decide_vacuum, vacuum_of
from lakehand.formats.delta.z_order import CLUSTERED, clusters_of, decide_z_order
from lakehand.spi import (
    Action,
    Finding,
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

DECISIONS: Mapping[Action, Callable[[DeltaContext], Need | Skip]] = {
    OPTIMIZE: decide_optimize,
    Z_ORDER: decide_z_order,
    VACUUM: decide_vacuum,
    PURGE: decide_purge,
}
REWRITES = ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True)


class DeltaProcessFactory(PlanningFactory[DeltaSnapshot]):
    name: ClassVar[str] = "delta"
    format: ClassVar[Format] = DELTA
    # A vacuum follows the clock, not commits: its own two commits must not wake it.
    strategies: ClassVar[Mapping[Action, ProcessTriggerStrategy]] = {
        OPTIMIZE: REWRITES, Z_ORDER: REWRITES, PURGE: REWRITES, VACUUM: at_fixed_rate(timedelta(hours=12)),
    }  # fmt: skip
    dry_runs: ClassVar[frozenset[Action]] = frozenset({VACUUM})
    rules: ClassVar[tuple[FailureRule, ...]] = RULES
    states: ClassVar[tuple[StateKey[Any], ...]] = (CLUSTERED, LAST_FULL)
    snapshot_type = DeltaSnapshot

    def make_settings(self) -> FormatSettings:
        return delta_settings()

    def decide(self, context: DeltaContext) -> Need | Skip:
        features = {name.strip() for name in context.values[FEATURES].split(",")}
        if why := why_unknown(context.snapshot, features):
            return Skip(reason=why)
        return DECISIONS[context.action](context)

    def has_committed(self, context: DeltaContext) -> bool:
        assert context.operation is not None
        return bool(tagged(context.snapshot, context.operation.process.parameters))

    def parameters(self, context: DeltaContext, need: Need) -> Mapping[str, Json]:
        """A later attempt must find what the first may have committed, so that ``before`` stays as it was."""
        before = context.first(BEFORE, context.snapshot.headline)
        return {**need.parameters, BEFORE: before, "identity": context.snapshot.identity}

    def verify_effect(
        self, table: TableRuntime, snapshot: DeltaSnapshot, process: TableProcess, result: Mapping[str, Json]
    ) -> Verdict:
        verdict = verdicts.verify(snapshot, process, result)
        if verdict.finding is Finding.DONE:
            remember(table, snapshot, process)
        return verdict


def remember(table: TableRuntime, snapshot: DeltaSnapshot, process: TableProcess) -> None:
    """What the log forgets after a month."""
    if process.action == Z_ORDER:
        columns = process.parameters.get("columns")
        names = [str(name) for name in columns] if isinstance(columns, (list, tuple)) else []
        table.update_state(CLUSTERED, lambda known: clusters_of(snapshot, names, known))
    elif process.action == VACUUM and process.parameters.get("mode") == FULL:
        commits = [commit for _, commit in tagged(snapshot, process.parameters)]
        begun = [vacuum_of(one, info_of(one)) for one in commits if info_of(one).get("operation") == START]
        if begun:
            table.update_state(LAST_FULL, lambda known: max(known, begun[-1], key=lambda one: one.at))
