# SPDX-License-Identifier: Apache-2.0
"""The plugins that are switched on, which of them answers for what, and how each of them behaves."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from lakehand.core.guards import Guard
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, LakehandError, NotFound
from lakehand.domain.tables import Format
from lakehand.spi.engines import ExecuteEngine
from lakehand.spi.factories import ProcessFactory, ProcessTriggerStrategy
from lakehand.spi.formats import TableFormat

log = logging.getLogger(__name__)
CLOSE_PATIENCE = 10.0  # seconds for all plugins together to let go


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReport:
    """One action of one format as a factory does it."""

    format: str
    action: str
    interval: timedelta | None = None
    on_new_snapshot: bool = True
    parallelism: int = 0
    dry_run: bool = False
    is_used: bool = True  # False: another factory has a higher priority for it


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """One plugin as people see it."""

    kind: str  # "process-factory", "table-format", "engine"
    name: str
    distribution: str
    version: str
    state: str  # "on", "off", "broken"; of one that is on: "failing", "slow", "stuck"
    reason: str = ""
    priority: int = 0
    pairs: Mapping[str, list[str]] = field(default_factory=dict)  # format → actions
    strategies: tuple[PairReport, ...] = ()
    errors: int = 0  # since this process started
    hangs: int = 0  # calls that were left because they did not come back
    last_error: str = ""
    last_error_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    formats: Mapping[Format, TableFormat]
    factories: Mapping[tuple[Format, Action], ProcessFactory]
    engines: Mapping[str, ExecuteEngine]
    strategies: Mapping[tuple[Format, Action], ProcessTriggerStrategy] = field(default_factory=dict)
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # factory name → its properties
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
        """Of all pairs that someone serves and can say when."""
        found = {}
        for pair in self.factories:
            with suppress(LakehandError):
                found[pair] = self.strategy(*pair)
        return found

    def follows_changes(self, format: Format, action: Action) -> bool:
        """Whether a change of a table is news for this action; not if nobody can say."""
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
        """Which plugins could be meant: those that are there and not on."""
        not_on = [f"{r.name} is {r.state}" for r in self.reports if r.kind == kind and r.state in ("off", "broken")]
        return f"; {', '.join(not_on)}" if not_on else ""

    def actions_of(self, format: Format) -> list[Action]:
        return sorted(action for on, action in self.factories if on == format)

    def check(self, format: Format, actions: frozenset[Action]) -> None:
        """Raise Invalid unless every action has a plugin for this format."""
        self.format(format)
        unknown = sorted(actions - set(self.actions_of(format)))
        if unknown:
            can = ", ".join(self.actions_of(format))
            raise Invalid(f"{', '.join(unknown)}: nobody does that for {format} tables; known are {can}")

    def properties_of(self, factory: ProcessFactory) -> Mapping[str, str]:
        return self.properties.get(factory.name, {})

    def listing(self) -> tuple[PluginReport, ...]:
        """Every plugin that was found, as it is now."""
        records = {(guard.record.kind, guard.record.name): guard.record for guard in self.guards()}
        return tuple(as_it_is(report, records.get((report.kind, report.name))) for report in self.reports)

    def guards(self) -> Iterator[Guard]:
        every: list[Any] = [*self.formats.values(), *set(self.factories.values()), *self.engines.values()]
        yield from (plugin for plugin in every if isinstance(plugin, Guard))

    def close(self) -> None:
        """Let all plugins go. One that fails or hangs keeps nobody."""
        closing: list[Any] = [*set(self.factories.values()), *self.engines.values()]
        threads = [threading.Thread(target=closed, args=(plugin.close,), daemon=True) for plugin in closing]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLOSE_PATIENCE / len(threads))


def closed(close: Callable[[], None]) -> None:
    try:
        close()
    except Exception:
        log.exception("a plugin could not be closed")


def as_it_is(report: PluginReport, record: Any) -> PluginReport:
    if record is None or report.state != "on":
        return report
    state, why = record.state()
    return replace(
        report, state=state, reason=why or report.reason, errors=record.errors, hangs=record.hangs,
        last_error=record.last_error, last_error_at=record.last_error_at,
    )  # fmt: skip
