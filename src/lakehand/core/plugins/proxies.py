# SPDX-License-Identifier: Apache-2.0
"""Plugins as the service calls them: through their worker's deadline and circuit breaker, with every result checked.

A check raises PluginBroken with the end of a sentence that begins with the plugin and its method. Texts in results may
quote errors of libraries, so they pass the masks of the settings' secrets, as errors do.
"""

import time
from abc import update_abstractmethods
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from inspect import getattr_static
from operator import attrgetter
from typing import Any, TypeVar

from lakehand.core.plugins.breakers import CircuitBreaker
from lakehand.core.plugins.pools import call_plugin
from lakehand.domain.actions import Action
from lakehand.domain.errors import PluginBroken
from lakehand.domain.operations import Handle, Operation
from lakehand.domain.processes import Drop, Failure, Finding, Json, Remedy, Skip, TableProcess, Verdict
from lakehand.domain.tables import Catalog, TableReference
from lakehand.spi.engines import EngineContext, EngineHealth, EngineState, EngineStatus, ExecuteEngine, LeaseGrant, Work
from lakehand.spi.factories import ProcessFactory, ProcessTriggerStrategy
from lakehand.spi.formats import CommittedTable, TableFormat, TableSnapshot
from lakehand.spi.runtimes import TableRuntime

C = TypeVar("C", bound=type)
R = TypeVar("R")
FRESH = 5.0  # seconds for which an engine's last health report is used
SHOWN_OF_STATUS = ("message", "result", "progress", "external_id", "external_url")


def forwards(contract: type) -> Callable[[C], C]:
    """Forward every other attribute of the contract to the plugin."""

    def decorate(proxy: C) -> C:
        for name in vars(contract):
            if not name.startswith("_") and name not in vars(proxy):
                setattr(proxy, name, property(attrgetter(f"inner.{name}")))
        update_abstractmethods(proxy)
        return proxy

    return decorate


class PluginProxy:
    """A plugin and its circuit breaker."""

    inner: Any
    breaker: CircuitBreaker

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def breakers(self) -> tuple[CircuitBreaker, ...]:
        return (self.breaker,)

    def hide(self, result: R, *texts: str) -> R:
        """The result without secrets in these fields."""
        kept = {name: getattr(result, name) for name in texts}
        hidden = {name: self.breaker.masks.hide_all(value) for name, value in kept.items()}
        return result if hidden == kept else replace(result, **hidden)  # type: ignore[type-var]

    def __repr__(self) -> str:
        return f"proxy of {self.inner!r}"


@forwards(ProcessFactory)
class FactoryProxy(PluginProxy, ProcessFactory):
    def __init__(self, inner: ProcessFactory) -> None:
        self.inner: ProcessFactory = inner
        self.name = inner.name  # type: ignore[misc]
        self.breaker = CircuitBreaker(kind="process-factory", name=inner.name)

    def supported_actions(self) -> Mapping[Any, frozenset[Action]]:
        return call_plugin(self.breaker, "", "supported_actions", check_supported, self.inner.supported_actions)

    def trigger_strategy(self, format: Any, action: Action) -> ProcessTriggerStrategy:
        ask = self.inner.trigger_strategy
        return call_plugin(self.breaker, "", "trigger_strategy", check_strategy, ask, format, action)

    def dry_run_actions(self) -> frozenset[Action]:
        return call_plugin(self.breaker, "", "dry_run_actions", check_actions, self.inner.dry_run_actions)

    def optional_actions(self) -> frozenset[Action]:
        return call_plugin(self.breaker, "", "optional_actions", check_actions, self.inner.optional_actions)

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        found = call_plugin(
            self.breaker, location_of(table), "trigger", process_or(action, Skip), self.inner.trigger, table, action
        )
        return self.hide(found, "reason")

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop | Failure:
        check = process_or(operation.process.action, Skip, Drop, Failure)
        found = call_plugin(self.breaker, location_of(table), "admit", check, self.inner.admit, table, operation)
        return self.hide(found, "reason", "message") if isinstance(found, Failure) else self.hide(found, "reason")

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        found = call_plugin(
            self.breaker, location_of(table), "verify", check_verdict, self.inner.verify, table, process, result
        )
        return self.hide(found, "reason")

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        found = call_plugin(
            self.breaker, location_of(table), "classify", check_failure, self.inner.classify, table, operation, status
        )
        return self.hide(found, "reason", "message")

    def recover(self, table: TableRuntime, stored: Operation) -> TableProcess:
        check = process_or(stored.process.action)
        return call_plugin(self.breaker, location_of(table), "recover", check, self.inner.recover, table, stored)


@forwards(TableFormat)
class FormatProxy(PluginProxy, TableFormat):
    def __init__(self, inner: TableFormat, name: str = "") -> None:
        self.inner: TableFormat = inner
        self.format = inner.format  # type: ignore[misc]
        self.breaker = CircuitBreaker(kind="table-format", name=name or str(inner.format))
        # Its own: a table whose numbers take too long to count is still probed, inspected and served.
        self.counting = CircuitBreaker(kind="table-format", name=self.breaker.name)

    @property
    def breakers(self) -> tuple[CircuitBreaker, ...]:
        return self.breaker, self.counting

    def probe(self, reference: TableReference) -> str:
        return call_plugin(self.breaker, reference.location, "probe", check_token, self.inner.probe, reference)

    def inspect(self, reference: TableReference) -> TableSnapshot:
        return call_plugin(self.breaker, reference.location, "inspect", check_snapshot, self.inner.inspect, reference)

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        """Without a deadline: a catalog may be large, and each has a thread of its own."""
        with self.breaker.masks.hiding():
            for reference in self.inner.tables(catalog):
                yield self.hide(reference, "problem")

    def commit_of(self, path: str) -> CommittedTable | None:
        return call_plugin(self.breaker, "", "commit_of", check_commit, self.inner.commit_of, path)

    def read_numbers(self, location: str, snapshot: TableSnapshot) -> Mapping[str, Json]:
        return call_plugin(self.counting, location, "numbers", check_numbers, lambda: snapshot.numbers)


@forwards(ExecuteEngine)
class EngineProxy(PluginProxy, ExecuteEngine):
    """Keeps the last capacity and health, so that reading them does not wait for the engine."""

    def __init__(self, inner: ExecuteEngine) -> None:
        self.inner: ExecuteEngine = inner
        self.name = inner.name  # type: ignore[misc]
        self.breaker = CircuitBreaker(kind="engine", name=inner.name)
        self._capacity = 0
        self._health: EngineHealth | None = None
        self._health_read = 0.0
        self.read_capacity()

    def open(self, properties: Mapping[str, str], context: EngineContext) -> None:
        self.inner.open(properties, context)

    def close(self) -> None:
        self.inner.close()

    @property
    def capacity(self) -> int:
        return 0 if self.breaker.state()[0] == "stuck" else self._capacity

    def read_capacity(self) -> None:
        self._capacity = call_plugin(self.breaker, "", "capacity", check_capacity, lambda: self.inner.capacity)

    def heartbeat_token(self) -> str | None:
        self.read_capacity()
        return call_plugin(self.breaker, "", "heartbeat_token", check_heartbeat_token, self.inner.heartbeat_token)

    def submit(self, work: Work, handle: Handle, grant: LeaseGrant) -> None:
        call_plugin(self.breaker, "", "submit", anything, self.inner.submit, work, handle, grant)

    def renew(self, handles: Collection[Handle], grant: LeaseGrant) -> None:
        call_plugin(self.breaker, "", "renew", anything, self.inner.renew, handles, grant)

    def status(self, handles: Collection[Handle]) -> Mapping[Handle, EngineStatus]:
        found = call_plugin(self.breaker, "", "status", check_statuses, self.inner.status, handles)
        return {handle: self.hide(one, *SHOWN_OF_STATUS) for handle, one in found.items()}

    def cancel(self, handle: Handle) -> None:
        call_plugin(self.breaker, "", "cancel", anything, self.inner.cancel, handle)

    def forget(self, handles: Collection[Handle]) -> None:
        call_plugin(self.breaker, "", "forget", anything, self.inner.forget, handles)

    def logs(self, handle: Handle, *, offset: int = 0, limit: int = 65536) -> str:
        """Of the same length as the engine has it: whoever reads on counts it."""
        text = call_plugin(self.breaker, "", "logs", check_text, self.inner.logs, handle, offset=offset, limit=limit)
        return self.breaker.masks.hide_evenly(text)

    def tend(self) -> None:
        """Let the engine do its upkeep, then read its health."""
        call_plugin(self.breaker, "", "tend", anything, self.inner.tend)
        self.read_health()

    def health(self) -> EngineHealth:
        state, why = self.breaker.state()
        if state == "stuck":
            return EngineHealth(is_up=False, detail=f"stuck: {why}")
        if self._health is None or time.monotonic() - self._health_read > FRESH:
            return self.read_health()
        return self._health

    def read_health(self) -> EngineHealth:
        found = call_plugin(self.breaker, "", "health", check_health, self.inner.health)
        self._health = self.hide(found, "detail", "facts")
        self._health_read = time.monotonic()
        return self._health


def proxy_of(plugin: Any) -> Any:
    """The plugin behind a proxy; one that has a proxy keeps it."""
    if isinstance(plugin, PluginProxy):
        return plugin
    if isinstance(plugin, ProcessFactory):
        return FactoryProxy(plugin)
    return FormatProxy(plugin) if isinstance(plugin, TableFormat) else EngineProxy(plugin)


def location_of(table: TableRuntime | None) -> str:
    """Empty for a factory that is tried without a table."""
    return table.table.location if table is not None else ""


def anything(_result: Any) -> None: ...


def check_supported(result: Any) -> None:
    if not is_a(result, Mapping):
        raise PluginBroken(f"returned {kind(result)}, not formats and their actions")
    for name, actions in result.items():
        if not is_a(name, str) or not name:
            raise PluginBroken(f"names {name!r} as a format")
        check_actions(actions)


def check_actions(result: Any) -> None:
    if not is_a(result, frozenset | set):
        raise PluginBroken(f"returned {kind(result)}, not a set of actions")
    for action in result:
        if not is_a(action, Action):
            raise PluginBroken(f"names {action!r}, which is not an action: make it with Action.register({action!r})")
        if not action.is_registered:
            raise PluginBroken(f"names the unknown action {action}: make it with Action.register({str(action)!r})")


def check_strategy(result: Any) -> None:
    if not is_a(result, ProcessTriggerStrategy):
        raise PluginBroken(f"returned {kind(result)}, not a ProcessTriggerStrategy")
    if result.interval is not None and not (is_a(result.interval, timedelta) and result.interval > timedelta()):
        raise PluginBroken(f"returned the interval {result.interval!r}, not a positive duration")
    if not is_a(result.parallelism, int) or result.parallelism < 0:
        raise PluginBroken(f"returned the parallelism {result.parallelism!r}, not a number from 0")
    if result.interval is None and not result.on_new_snapshot:
        raise PluginBroken("returned a strategy without interval and without on_new_snapshot: it would never be called")


def process_or(action: Action, *others: type) -> Callable[[Any], None]:
    def check(result: Any) -> None:
        if is_a(result, TableProcess):
            check_process(result, action)
        elif not is_a(result, others):
            wanted = ", ".join(["TableProcess", *(one.__name__ for one in others)])
            raise PluginBroken(f"returned {kind(result)}, not one of: {wanted}")
        elif is_a(result, Failure):
            check_failure(result)
        elif not is_a(result.reason, str):
            raise PluginBroken(f"returned a {kind(result)} without a reason")
        elif not is_a(getattr(result, "look_again", None), timedelta | None):
            raise PluginBroken(f"returned a {kind(result)} that looks again after {result.look_again!r}")

    return check


def check_process(process: Any, action: Action) -> None:
    if process.action != action:
        raise PluginBroken(f"returned a process of {process.action!r} when it was asked about {action}")
    texts = (process.job, process.engine, process.conflict_class, process.reason)
    if not all(is_a(text, str) for text in texts) or not is_a(process.parameters, Mapping):
        raise PluginBroken("returned a process whose job, engine, conflict class, reason or parameters are none")
    if not is_a(process.instant, str | None):
        raise PluginBroken(f"returned a process with the instant {process.instant!r}")


def check_verdict(result: Any) -> None:
    if not is_a(result, Verdict) or not is_a(result.finding, Finding):
        raise PluginBroken(f"returned {kind(result)}, not a Verdict with a Finding")
    if not is_a(result.numbers, Mapping) or not is_a(result.reason, str):
        raise PluginBroken("returned a Verdict without reason or numbers")


def check_failure(result: Any) -> None:
    if not is_a(result, Failure) or not is_a(result.remedy, Remedy):
        raise PluginBroken(f"returned {kind(result)}, not a Failure with a Remedy")
    if not is_a(result.reason, str) or not is_a(result.message, str):
        raise PluginBroken("returned a Failure without reason or message")
    if not is_a(result.delay, timedelta | None):
        raise PluginBroken(f"returned a Failure with the delay {result.delay!r}")


def check_token(result: Any) -> None:
    if not is_a(result, str):
        raise PluginBroken(f"returned {kind(result)}, not a change token")


def check_snapshot(result: Any) -> None:
    """Does not read the numbers: counting them may list the whole table."""
    if not hasattr(result, "token") or getattr_static(result, "numbers", None) is None:
        raise PluginBroken(f"returned {kind(result)}, which has no token and no numbers")


def check_commit(result: Any) -> None:
    if not is_a(result, CommittedTable | None):
        raise PluginBroken(f"returned {kind(result)}, not a CommittedTable")


def check_numbers(result: Any) -> None:
    if not is_a(result, Mapping):
        raise PluginBroken(f"is {kind(result)}, not names and numbers")


def check_capacity(result: Any) -> None:
    if not is_a(result, int) or result < 0:
        raise PluginBroken(f"is {result!r}, not a number from 0")


def check_heartbeat_token(result: Any) -> None:
    if not is_a(result, str | None):
        raise PluginBroken(f"returned {kind(result)}, not a heartbeat token")


def check_statuses(result: Any) -> None:
    if not is_a(result, Mapping):
        raise PluginBroken(f"returned {kind(result)}, not a status for each handle")
    for status in result.values():
        if not is_a(status, EngineStatus) or not is_a(status.state, EngineState):
            raise PluginBroken(f"returned {kind(status)} for a handle, not an EngineStatus")


def check_text(result: Any) -> None:
    if not is_a(result, str):
        raise PluginBroken(f"returned {kind(result)}, not text")


def check_health(result: Any) -> None:
    if not is_a(result, EngineHealth):
        raise PluginBroken(f"returned {kind(result)}, not an EngineHealth")


def is_a(result: Any, wanted: Any) -> bool:
    """``isinstance`` without the type checker's belief that results have their declared type."""
    return isinstance(result, wanted)


def kind(result: object) -> str:
    return type(result).__name__
