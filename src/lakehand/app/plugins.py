# SPDX-License-Identifier: Apache-2.0
"""Finds plugins by entry point, switches and opens them. A broken one is reported and stops nobody."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from lakehand.core.plugins import PluginReport, Plugins
from lakehand.domain.actions import Action
from lakehand.domain.errors import PluginBroken
from lakehand.domain.tables import Format
from lakehand.spi.engines import EngineContext, ExecuteEngine
from lakehand.spi.factories import ProcessFactory
from lakehand.spi.formats import TableFormat

log = logging.getLogger(__name__)
GROUPS = {
    "process-factory": "lakehand.process_factories",
    "table-format": "lakehand.table_formats",
    "engine": "lakehand.engines",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConfig:
    enabled: bool = True
    priority: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


Configs = Mapping[tuple[str, str], PluginConfig]  # (kind, name) → configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    report: PluginReport
    plugin: Any = None
    priority: int = 0


def load(configs: Configs, context: Callable[[str, tuple[str, ...]], EngineContext]) -> Plugins:
    """Load all kinds. ``context`` gives an engine its home, told the formats that are on."""
    formats = load_kind("table-format", TableFormat, configs, lambda p, c: p.open(c.properties))
    names = tuple(sorted(one.report.name for one in formats if one.plugin))
    factories = load_kind("process-factory", ProcessFactory, configs, lambda p, c: p.open(c.properties))
    engines = load_kind("engine", ExecuteEngine, configs, lambda p, c: p.open(c.properties, context(p.name, names)))
    return Plugins(
        formats={one.plugin.format: one.plugin for one in formats if one.plugin},
        factories=claimed_pairs(factories),
        engines={one.plugin.name: one.plugin for one in engines if one.plugin},
        properties={name: c.properties for (kind, name), c in configs.items() if kind == "process-factory"},
        reports=tuple(one.report for one in (*formats, *factories, *engines)),
    )


def load_kind(
    kind: str, contract: type, configs: Configs, open_plugin: Callable[[Any, PluginConfig], None]
) -> list[Loaded]:
    found = sorted(entry_points(group=GROUPS[kind]), key=lambda e: e.name)
    return [load_one(kind, contract, e, configs.get((kind, e.name), PluginConfig()), open_plugin) for e in found]


def load_one(
    kind: str,
    contract: type,
    entry: EntryPoint,
    config: PluginConfig,
    open_plugin: Callable[[Any, PluginConfig], None],
) -> Loaded:
    if not config.enabled:
        return Loaded(report=report(kind, entry, "off", "switched off in the settings"))
    try:
        plugin = entry.load()()
        if not isinstance(plugin, contract):
            raise PluginBroken(f"{entry.value} is no {contract.__name__}")
        open_plugin(plugin, config)
        pairs = pairs_of(plugin)
    except Exception as error:
        log.exception("a plugin is broken and stays off", extra={"plugin": entry.name, "kind": kind})
        return Loaded(report=report(kind, entry, "broken", f"{type(error).__name__}: {error}"))
    return Loaded(report=report(kind, entry, "on", pairs=pairs), plugin=plugin, priority=config.priority)


def report(
    kind: str, entry: EntryPoint, state: str, reason: str = "", pairs: Mapping[str, list[str]] | None = None
) -> PluginReport:
    return PluginReport(
        kind=kind,
        name=entry.name,
        distribution=entry.dist.name if entry.dist else "",
        version=entry.dist.version if entry.dist else "",
        state=state,
        reason=reason,
        pairs=pairs or {},
    )


def pairs_of(plugin: object) -> Mapping[str, list[str]]:
    if isinstance(plugin, ProcessFactory):
        return {str(f): sorted(actions) for f, actions in plugin.supported_actions().items()}
    return {str(plugin.format): []} if isinstance(plugin, TableFormat) else {}


def claimed_pairs(factories: Iterable[Loaded]) -> Mapping[tuple[Format, Action], ProcessFactory]:
    """Who answers for which (format, action): the higher priority; an equal one is an error that names both."""
    winners: dict[tuple[Format, Action], Loaded] = {}
    for one in factories:
        for pair in all_pairs(one.plugin):
            rival = winners.get(pair)
            if rival and rival.priority == one.priority:
                raise PluginBroken(
                    f"{rival.report.name} and {one.report.name} both do {pair[1]} for {pair[0]} with priority "
                    f"{one.priority}: give one of them a higher priority or switch it off"
                )
            if rival is None or one.priority > rival.priority:
                winners[pair] = one
    return {pair: one.plugin for pair, one in winners.items()}


def all_pairs(plugin: ProcessFactory | None) -> list[tuple[Format, Action]]:
    if plugin is None:
        return []
    return [(name, action) for name, actions in plugin.supported_actions().items() for action in actions]
