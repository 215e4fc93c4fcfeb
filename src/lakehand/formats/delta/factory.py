# SPDX-License-Identifier: Apache-2.0
"""The process factory of Delta: optimize, z-order, vacuum and purge, decided from the log."""

from collections.abc import Mapping, Set
from datetime import timedelta
from typing import Any, ClassVar

from lakehand.formats.delta import admissions, failures, settings, triggers, verdicts
from lakehand.formats.delta.clusters import CLUSTERED, clusters_of
from lakehand.formats.delta.log import info_of
from lakehand.formats.delta.look import Look, delta
from lakehand.formats.delta.settings import ACTIONS, FULL, VACUUM, Z_ORDER, Floors
from lakehand.formats.delta.table import DELTA
from lakehand.formats.delta.tags import tagged
from lakehand.formats.delta.vacuum import LAST_FULL, START, sweep_of
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
)

REWRITES = ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True)
# A vacuum follows the clock, not commits: its own two commits must not wake it.
BY_THE_CLOCK = at_fixed_rate(timedelta(hours=12))


class DeltaProcessFactory(ProcessFactory):
    name: ClassVar[str] = "delta"

    def __init__(self) -> None:
        self._floors = Floors()

    def open(self, properties: Mapping[str, str]) -> None:
        self._floors = settings.floors_of(properties)

    def required_states(self) -> Set[StateKey[Any]]:
        return frozenset({CLUSTERED, LAST_FULL})

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {DELTA: ACTIONS}

    def trigger_strategy(self, format: Format, action: Action) -> ProcessTriggerStrategy:
        return BY_THE_CLOCK if action == VACUUM else REWRITES

    def dry_run_actions(self) -> frozenset[Action]:
        return frozenset({VACUUM})

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        return triggers.decide(self._look(table), action)

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop | Failure:
        return admissions.admit(self._look(table), operation)

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        try:
            verdict = verdicts.verify(delta(table), process, result)
            if verdict.finding is Finding.DONE:
                remember(table, process)
        except Invalid as error:
            return Verdict(finding=Finding.GONE, reason=str(error))
        except OSError as error:
            return Verdict(finding=Finding.UNREADABLE, reason=f"the log cannot be read: {error}")
        return verdict

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        known = table.table
        return failures.classify(status, table=known.name or str(known.id), action=operation.process.action)

    def recover(self, table: TableRuntime, stored: Operation) -> TableProcess:
        if stored.process.action not in ACTIONS:
            raise RecoverProcessFailed(f"operation {stored.id} is a {stored.process.action}, which Delta does not have")
        return stored.process

    def _look(self, table: TableRuntime) -> Look:
        return Look(table=table, floors=self._floors)


def remember(table: TableRuntime, process: TableProcess) -> None:
    """What the log forgets after a month."""
    if process.action == Z_ORDER:
        columns = process.parameters.get("columns")
        names = [str(name) for name in columns] if isinstance(columns, (list, tuple)) else []
        table.update_state(CLUSTERED, lambda known: clusters_of(delta(table), names, known))
    elif process.action == VACUUM and process.parameters.get("mode") == FULL:
        commits = [commit for _, commit in tagged(delta(table), process.parameters)]
        begun = [sweep_of(one, info_of(one)) for one in commits if info_of(one).get("operation") == START]
        if begun:
            table.update_state(LAST_FULL, lambda known: max(known, begun[-1], key=lambda sweep: sweep.at))
