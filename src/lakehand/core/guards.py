# SPDX-License-Identifier: Apache-2.0
"""Plugins as the service calls them: every call is watched, every answer is checked, every fault has a name on it."""

import time
from abc import update_abstractmethods
from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from lakehand.core.answers import (
    answer_about,
    anything,
    check_actions,
    check_capacity,
    check_failure,
    check_health,
    check_heartbeat_token,
    check_snapshot,
    check_statuses,
    check_strategy,
    check_supported,
    check_text,
    check_token,
    check_verdict,
)
from lakehand.core.health import PluginHealth
from lakehand.core.seats import called, called_about
from lakehand.domain.actions import Action
from lakehand.domain.operations import Handle, Operation
from lakehand.domain.processes import Drop, Failure, Json, Skip, TableProcess, Verdict
from lakehand.domain.references import TableReference
from lakehand.spi.engines import EngineContext, EngineHealth, EngineStatus, ExecuteEngine, LeaseGrant, Work
from lakehand.spi.factories import ProcessFactory, ProcessTriggerStrategy
from lakehand.spi.formats import TableFormat, TableSnapshot
from lakehand.spi.runtimes import TableRuntime

C = TypeVar("C", bound=type)
FRESH = 5.0  # seconds for which a look at an engine's health is good enough


def forwards(contract: type) -> Callable[[C], C]:
    """Whatever else the contract has is the plugin's own."""

    def forwarded(guard: C) -> C:
        for name in vars(contract):
            if not name.startswith("_") and name not in vars(guard):
                setattr(guard, name, property(attrgetter(f"inner.{name}")))
        update_abstractmethods(guard)
        return guard

    return forwarded


class Guard:
    """A plugin, and how it behaves."""

    inner: Any
    record: PluginHealth

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"guarded {self.inner!r}"


@forwards(ProcessFactory)
class GuardedFactory(Guard, ProcessFactory):
    def __init__(self, inner: ProcessFactory) -> None:
        self.inner: ProcessFactory = inner
        self.name = inner.name  # type: ignore[misc]
        self.record = PluginHealth(kind="process-factory", name=inner.name)

    def supported_actions(self) -> Mapping[Any, frozenset[Action]]:
        return called(self.record, "supported_actions", check_supported, self.inner.supported_actions)

    def trigger_strategy(self, format: Any, action: Action) -> ProcessTriggerStrategy:
        ask = self.inner.trigger_strategy
        return called(self.record, "trigger_strategy", check_strategy, ask, format, action)

    def dry_run_actions(self) -> frozenset[Action]:
        return called(self.record, "dry_run_actions", check_actions, self.inner.dry_run_actions)

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        return called_about(
            location_of(table), self.record, "trigger", answer_about(action, Skip), self.inner.trigger, table, action
        )

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop | Failure:
        check = answer_about(operation.process.action, Skip, Drop, Failure)
        return called_about(location_of(table), self.record, "admit", check, self.inner.admit, table, operation)

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        return called_about(
            location_of(table), self.record, "verify", check_verdict, self.inner.verify, table, process, result
        )

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        return called_about(
            location_of(table), self.record, "classify", check_failure, self.inner.classify, table, operation, status
        )

    def recover(self, table: TableRuntime, stored: Operation) -> TableProcess:
        check = answer_about(stored.process.action)
        return called_about(location_of(table), self.record, "recover", check, self.inner.recover, table, stored)


@forwards(TableFormat)
class GuardedFormat(Guard, TableFormat):
    def __init__(self, inner: TableFormat, name: str = "") -> None:
        self.inner: TableFormat = inner
        self.format = inner.format  # type: ignore[misc]
        self.record = PluginHealth(kind="table-format", name=name or str(inner.format))

    def probe(self, reference: TableReference) -> str:
        return called_about(reference.location, self.record, "probe", check_token, self.inner.probe, reference)

    def inspect(self, reference: TableReference) -> TableSnapshot:
        return called_about(reference.location, self.record, "inspect", check_snapshot, self.inner.inspect, reference)


@forwards(ExecuteEngine)
class GuardedEngine(Guard, ExecuteEngine):
    """Its capacity and health are those of the last look at them: asking for them waits for nobody."""

    def __init__(self, inner: ExecuteEngine) -> None:
        self.inner: ExecuteEngine = inner
        self.name = inner.name  # type: ignore[misc]
        self.record = PluginHealth(kind="engine", name=inner.name)
        self._capacity = 0
        self._health: EngineHealth | None = None
        self._looked = 0.0
        self.take_capacity()

    def open(self, properties: Mapping[str, str], context: EngineContext) -> None:
        self.inner.open(properties, context)

    def close(self) -> None:
        self.inner.close()

    @property
    def capacity(self) -> int:
        return 0 if self.record.state()[0] == "stuck" else self._capacity

    def take_capacity(self) -> None:
        self._capacity = called(self.record, "capacity", check_capacity, lambda: self.inner.capacity)

    def heartbeat_token(self) -> str | None:
        self.take_capacity()
        return called(self.record, "heartbeat_token", check_heartbeat_token, self.inner.heartbeat_token)

    def submit(self, work: Work, handle: Handle, grant: LeaseGrant) -> None:
        called(self.record, "submit", anything, self.inner.submit, work, handle, grant)

    def renew(self, handles: Collection[Handle], grant: LeaseGrant) -> None:
        called(self.record, "renew", anything, self.inner.renew, handles, grant)

    def status(self, handles: Collection[Handle]) -> Mapping[Handle, EngineStatus]:
        return called(self.record, "status", check_statuses, self.inner.status, handles)

    def cancel(self, handle: Handle) -> None:
        called(self.record, "cancel", anything, self.inner.cancel, handle)

    def forget(self, handles: Collection[Handle]) -> None:
        called(self.record, "forget", anything, self.inner.forget, handles)

    def logs(self, handle: Handle, *, offset: int = 0, limit: int = 65536) -> str:
        return called(self.record, "logs", check_text, self.inner.logs, handle, offset=offset, limit=limit)

    def tend(self) -> None:
        """The engine's own work, and a fresh look at how it is."""
        called(self.record, "tend", anything, self.inner.tend)
        self.take_health()

    def health(self) -> EngineHealth:
        state, why = self.record.state()
        if state == "stuck":
            return EngineHealth(is_up=False, detail=f"stuck: {why}")
        if self._health is None or time.monotonic() - self._looked > FRESH:
            return self.take_health()
        return self._health

    def take_health(self) -> EngineHealth:
        self._health = called(self.record, "health", check_health, self.inner.health)
        self._looked = time.monotonic()
        return self._health


def guarded(plugin: Any) -> Any:
    """The plugin behind its guard; one that has a guard keeps it."""
    if isinstance(plugin, Guard):
        return plugin
    if isinstance(plugin, ProcessFactory):
        return GuardedFactory(plugin)
    return GuardedFormat(plugin) if isinstance(plugin, TableFormat) else GuardedEngine(plugin)


def location_of(table: TableRuntime | None) -> str:
    """Where a call that hangs is counted; a factory may be tried without a table."""
    return table.table.location if table is not None else ""
