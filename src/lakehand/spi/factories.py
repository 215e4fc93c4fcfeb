# SPDX-License-Identifier: Apache-2.0
"""What the author of an action writes: one class that decides when to do what to which tables."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

from lakehand.domain.actions import Action
from lakehand.domain.operations import Operation
from lakehand.domain.processes import Drop, Failure, Json, Skip, TableProcess, Verdict
from lakehand.domain.tables import Format
from lakehand.spi.engines import EngineStatus
from lakehand.spi.metrics import PluginMetric
from lakehand.spi.runtimes import StateKey, TableRuntime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTriggerStrategy:
    """When a (format, action) is evaluated, and how many of it may run at once (0: no limit)."""

    interval: timedelta | None = None  # counted from the last start
    on_new_snapshot: bool = True
    parallelism: int = 0


METADATA_TRIGGER = ProcessTriggerStrategy(interval=None, on_new_snapshot=True)


def at_fixed_rate(interval: timedelta, *, parallelism: int = 0) -> ProcessTriggerStrategy:
    return ProcessTriggerStrategy(interval=interval, on_new_snapshot=False, parallelism=parallelism)


class ProcessFactory(ABC):
    """Decides about the actions of one or more formats. Deciding is pure: read the runtime, return data."""

    name: ClassVar[str]

    def open(self, properties: Mapping[str, str]) -> None:
        """Called once before use with the plugin's properties."""

    def close(self) -> None:
        """Called once when the service stops."""

    def required_states(self) -> Set[StateKey[Any]]:
        """The state that it keeps per table: a runtime refuses any other. Called often, and always the same."""
        return frozenset()

    def state_changed(self, table: TableRuntime, key: StateKey[Any], before: Any, after: Any) -> None:
        """Called when ``update_state`` has stored another value, by the thread and instance that did."""

    def metrics(self) -> Sequence[PluginMetric]:
        """What ``/metrics`` shows of it beside Lakehand's own numbers."""
        return ()

    @abstractmethod
    def supported_actions(self) -> Mapping[Format, frozenset[Action]]: ...

    def trigger_strategy(self, format: Format, action: Action) -> ProcessTriggerStrategy:
        return METADATA_TRIGGER

    def dry_run_actions(self) -> frozenset[Action]:
        """Actions whose process, given the parameter ``dry_run``, lists what it would delete and deletes nothing."""
        return frozenset()

    def optional_actions(self) -> frozenset[Action]:
        """Actions that a table gets only if somebody names them: not everybody needs them, and they cost much."""
        return frozenset()

    @abstractmethod
    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        """What the table needs now, one process at a time: it is asked again until it skips."""

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop | Failure:
        """Asked right before an engine gets the operation: the process as it must run now, or why not.

        The default runs what was stored; for an operation that someone asked for, which has no job yet, it asks
        ``trigger``. A factory whose plans live in the table checks here that the plan is still there and completes
        the process from the table as it is now. ``Skip``: not now. ``Drop``: the plan is gone or done; should it come
        back, it is taken up again. ``Failure``: it must not run, and someone has to act.
        """
        if operation.process.job:
            return operation.process
        answer = self.trigger(table, operation.process.action)
        if isinstance(answer, Skip):
            return Drop(reason=answer.reason)
        return replace(answer, instant=operation.process.instant)

    @abstractmethod
    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        """What the table says about the process. ``result`` is empty when the engine could not give one."""

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        """Why an attempt failed and what follows. The default tries again."""
        return Failure(reason=status.error_class or "failed", message=status.message or "the engine gave no reason")

    def recover(self, table: TableRuntime, stored: Operation) -> TableProcess:
        """Turn a stored operation into a process again after a restart; raises ``RecoverProcessFailed``."""
        return stored.process
