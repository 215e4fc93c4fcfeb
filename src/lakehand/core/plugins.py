# SPDX-License-Identifier: Apache-2.0
"""The plugins that are switched on, and which of them answers for what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, NotFound
from lakehand.domain.tables import Format
from lakehand.spi.engines import ExecuteEngine
from lakehand.spi.factories import ProcessFactory
from lakehand.spi.formats import TableFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """One plugin as people see it."""

    kind: str  # "process-factory", "table-format", "engine"
    name: str
    distribution: str
    version: str
    state: str  # "on", "off", "broken"
    reason: str = ""
    pairs: Mapping[str, list[str]] = field(default_factory=dict)  # format → actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    formats: Mapping[Format, TableFormat]
    factories: Mapping[tuple[Format, Action], ProcessFactory]
    engines: Mapping[str, ExecuteEngine]
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # factory name → its properties
    reports: tuple[PluginReport, ...] = ()

    def format(self, name: Format) -> TableFormat:
        if name not in self.formats:
            raise NotFound(f"no plugin reads the format {name!r}; on are: {', '.join(sorted(self.formats)) or 'none'}")
        return self.formats[name]

    def factory(self, format: Format, action: Action) -> ProcessFactory:
        if (format, action) not in self.factories:
            raise NotFound(f"no plugin does {action} for {format}; it can do: {', '.join(self.actions_of(format))}")
        return self.factories[(format, action)]

    def engine(self, name: str) -> ExecuteEngine:
        if name not in self.engines:
            raise NotFound(f"no engine is called {name!r}; on are: {', '.join(sorted(self.engines)) or 'none'}")
        return self.engines[name]

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

    def close(self) -> None:
        closing: list[Any] = [*set(self.factories.values()), *self.engines.values()]
        for plugin in closing:
            plugin.close()
