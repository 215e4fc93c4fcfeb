# SPDX-License-Identifier: Apache-2.0
"""The plugins that are on, which of them serves which format and action, and the state of each."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from lakehand.core.plugins.breakers import CircuitBreaker
from lakehand.core.plugins.proxies import PluginProxy
from lakehand.core.ports import PluginReport
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, LakehandError, NotFound
from lakehand.domain.operations import Operation
from lakehand.domain.tables import Format, Table
from lakehand.spi.engines import ExecuteEngine, LeaseGrant, Work
from lakehand.spi.factories import ProcessFactory, ProcessTriggerStrategy
from lakehand.spi.formats import TableFormat
from lakehand.spi.kit import FormatSettings
from lakehand.spi.metrics import PluginMetric

log = logging.getLogger(__name__)
CLOSE_TIMEOUT = 10.0  # seconds for all plugins together


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    formats: Mapping[Format, TableFormat]
    factories: Mapping[tuple[Format, Action], ProcessFactory]
    engines: Mapping[str, ExecuteEngine]
    strategies: Mapping[tuple[Format, Action], ProcessTriggerStrategy] = field(default_factory=dict)
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # factory name → its properties
    settings: Mapping[str, FormatSettings] = field(default_factory=dict)  # of factories that are built with the kit
    metrics: Sequence[tuple[str, PluginMetric]] = ()  # plugin name and metric
    reports: tuple[PluginReport, ...] = ()  # as they were found; see ``listing``

    def format(self, name: Format) -> TableFormat:
        if name not in self.formats:
            on = ", ".join(sorted(self.formats)) or "none"
            raise NotFound(f"no plugin reads the format {name!r}; on are: {on}{self.absent('table-format')}")
        return self.formats[name]

    def factory(self, format: Format, action: Action) -> ProcessFactory:
        known = self.factories.get((format, action))
        if known is None:
            can = ", ".join(self.actions_of(format)) or "nothing"
            raise NotFound(
                f"no plugin does {action} for {format}; it can do: {can}{self.absent('process-factory')}",
            )
        return known

    def strategy(self, format: Format, action: Action) -> ProcessTriggerStrategy:
        known = self.strategies.get((format, action))
        return known if known is not None else self.factory(format, action).trigger_strategy(format, action)

    def all_strategies(self) -> Mapping[tuple[Format, Action], ProcessTriggerStrategy]:
        """Of all pairs whose factory gives one."""
        found = {}
        for pair in self.factories:
            with suppress(LakehandError):
                found[pair] = self.strategy(*pair)
        return found

    def follows_changes(self, format: Format, action: Action) -> bool:
        """Whether the action is change-driven; False if no plugin can tell."""
        try:
            return self.strategy(format, action).on_new_snapshot
        except LakehandError:
            return False

    def engine(self, name: str) -> ExecuteEngine:
        if name not in self.engines:
            on = ", ".join(sorted(self.engines)) or "none"
            raise NotFound(f"no engine is called {name!r}; on are: {on}{self.absent('engine')}")
        return self.engines[name]

    def absent(self, kind: str) -> str:
        """A hint at plugins that are installed but not on."""
        not_on = [f"{r.name} is {r.state}" for r in self.reports if r.kind == kind and r.state in ("off", "broken")]
        return f"; {', '.join(not_on)}" if not_on else ""

    def actions_of(self, format: Format) -> list[Action]:
        return sorted(action for on, action in self.factories if on == format)

    def default_actions_of(self, format: Format) -> frozenset[Action]:
        """What a table gets if nobody names actions."""
        every = self.actions_of(format)
        return frozenset(one for one in every if one not in self.factory(format, one).optional_actions())

    def check(self, format: Format, actions: frozenset[Action]) -> None:
        """Raise Invalid unless every action has a plugin for this format."""
        self.format(format)
        unknown = sorted(actions - set(self.actions_of(format)))
        if unknown:
            can = ", ".join(self.actions_of(format))
            raise Invalid(f"{', '.join(unknown)}: nobody does that for {format} tables; known are {can}")

    def properties_of(self, factory: ProcessFactory) -> Mapping[str, str]:
        return self.properties.get(factory.name, {})

    def submit(self, operation: Operation, table: Table, grant: LeaseGrant) -> bool:
        """Give the work to its engine. False if that does not take it: the monitor submits it again."""
        assert operation.handle is not None
        process = operation.process
        work = Work(
            job=process.job, parameters=process.parameters, table=table.name, location=table.location,
            queue=operation.queue, operation=operation.id,
        )  # fmt: skip
        try:
            self.engine(process.engine).submit(work, operation.handle, grant)
        except (OSError, LakehandError) as error:
            log.warning("the engine did not take it yet", extra={"operation": operation.id, "reason": str(error)})
            return False
        return True

    def listing(self) -> tuple[PluginReport, ...]:
        """Every plugin that was found, with its current state."""
        every: list[Any] = [*self.formats.values(), *set(self.factories.values()), *self.engines.values()]
        breakers = [plugin.breaker for plugin in every if isinstance(plugin, PluginProxy)]
        known = {(breaker.kind, breaker.name): breaker for breaker in breakers}
        return tuple(with_state(report, known.get((report.kind, report.name))) for report in self.reports)

    def close(self) -> None:
        """Close all plugins. One that fails or hangs does not keep the others from it."""
        closing: list[Any] = [*set(self.factories.values()), *self.engines.values()]
        threads = [threading.Thread(target=close_quietly, args=(plugin.close,), daemon=True) for plugin in closing]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLOSE_TIMEOUT / len(threads))


def close_quietly(close: Callable[[], None]) -> None:
    try:
        close()
    except Exception:
        log.exception("a plugin could not be closed")


def with_state(report: PluginReport, breaker: CircuitBreaker | None) -> PluginReport:
    if breaker is None or report.state != "on":
        return report
    state, why = breaker.state()
    return replace(
        report, state=state, reason=why or report.reason, errors=breaker.errors, hangs=breaker.hangs,
        last_error=breaker.last_error, last_error_at=breaker.last_error_at,
    )  # fmt: skip
