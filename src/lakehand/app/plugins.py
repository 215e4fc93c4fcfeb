# SPDX-License-Identifier: Apache-2.0
"""Finds plugins by entry point and opens those that are on. A broken plugin is reported and stops no other."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from lakehand.core.plugins.proxies import proxy_of
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import PairReport, PluginReport
from lakehand.domain.actions import Action
from lakehand.domain.errors import PluginBroken
from lakehand.domain.masks import Masks
from lakehand.domain.tables import Format
from lakehand.spi.engines import EngineContext, ExecuteEngine
from lakehand.spi.factories import ProcessFactory, ProcessTriggerStrategy
from lakehand.spi.formats import TableFormat
from lakehand.spi.kit import FormatFactory, FormatSettings
from lakehand.spi.metrics import PluginMetric
from lakehand.spi.runtimes import StateKey

log = logging.getLogger(__name__)
GROUPS = {
    "process-factory": "lakehand.process_factories",
    "table-format": "lakehand.table_formats",
    "engine": "lakehand.engines",
}
CONTRACTS: Mapping[str, type] = {
    "process-factory": ProcessFactory, "table-format": TableFormat, "engine": ExecuteEngine,
}  # fmt: skip
OURS = "lakehand"
EVERY = ""  # in place of a name: for every plugin of the kind
LOAD_TIMEOUT = 30.0  # seconds to import and open a plugin
Pair = tuple[Format, Action]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConfig:
    enabled: bool = True
    priority: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


Configs = Mapping[tuple[str, str], PluginConfig]  # (kind, name) → configuration
Open = Callable[[Any, PluginConfig], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    report: PluginReport
    plugin: Any = None
    config: PluginConfig = PluginConfig()
    strategies: Mapping[Pair, ProcessTriggerStrategy] = field(default_factory=dict)
    metrics: Sequence[PluginMetric] = ()
    settings: FormatSettings | None = None  # of a factory that is built with the kit

    @property
    def priority(self) -> int:
        return self.config.priority

    @property
    def claims(self) -> list[Any]:
        """What only one plugin may do: read a format, be an engine of this name, do an action for a format."""
        if self.plugin is None or self.report.kind == "process-factory":
            return [*self.strategies]
        return [self.plugin.format if self.report.kind == "table-format" else self.plugin.name]

    @property
    def label(self) -> str:
        return f"{self.report.name} ({self.report.distribution or 'no distribution'})"


def load(
    configs: Configs, context: Callable[[str, tuple[str, ...]], EngineContext] | None, timeout: float = LOAD_TIMEOUT,
    masks: Masks | None = None,
) -> Plugins:  # fmt: skip
    """Load all kinds. ``context`` makes the context of an engine from the formats that are on; None: no engines.

    ``masks`` hide the secrets of the settings in whatever the plugins say.
    """
    masks = masks or Masks()
    formats = load_kind("table-format", configs, lambda p, c: p.open(c.properties), timeout, masks)
    names = tuple(sorted(str(one.plugin.format) for one in formats if one.plugin))
    factories = load_kind("process-factory", configs, lambda p, c: p.open(c.properties), timeout, masks)
    engines = []
    if context:
        engines = load_kind(
            "engine", configs, lambda p, c: p.open(c.properties, context(p.name, names)), timeout, masks
        )
    factories = refuse_equal_names(factories)
    read, run, pairs = claimed(formats), claimed(engines), claimed(factories)
    return Plugins(
        formats={name: one.plugin for name, one in read.items()},
        factories={pair: one.plugin for pair, one in pairs.items()},
        engines={name: one.plugin for name, one in run.items()},
        strategies={pair: one.strategies[pair] for pair, one in pairs.items()},
        properties={one.plugin.name: one.config.properties for one in factories if one.plugin},
        settings={one.plugin.name: one.settings for one in factories if one.plugin and one.settings},
        metrics=[(one.report.name, metric) for one in (*formats, *factories, *engines) for metric in one.metrics],
        reports=(
            *(report_with_rival(one, read) for one in formats),
            *(report_with_pairs(one, pairs) for one in factories),
            *(report_with_rival(one, run) for one in engines),
        ),
    )


def storage_properties(configs: Configs) -> Mapping[str, str]:
    """How to reach buckets: the properties of all formats together."""
    formats = [config for (kind, _), config in sorted(configs.items()) if kind == "table-format"]
    return {key: value for config in formats for key, value in config.properties.items()}


def load_kind(
    kind: str, configs: Configs, open_plugin: Open, timeout: float = LOAD_TIMEOUT, masks: Masks | None = None
) -> list[Loaded]:
    found = sorted(entry_points(group=GROUPS[kind]), key=lambda e: (e.name, distribution_of(e) != OURS, e.value))
    loaded, taken = [], dict[str, EntryPoint]()
    for entry in found:
        if holder := taken.get(entry.name):
            why = f"its name is taken by {holder.value} of {distribution_of(holder)}: names must be unique"
            loaded.append(Loaded(report=report(kind, entry, "broken", why)))
        else:
            config = config_of(configs, kind, entry.name)
            loaded.append(load_one(kind, entry, config, open_plugin, timeout, masks=masks or Masks()))
            taken[entry.name] = entry
    return loaded


def config_of(configs: Configs, kind: str, name: str) -> PluginConfig:
    """The plugin's own, and what every plugin of its kind gets."""
    own, shared = configs.get((kind, name), PluginConfig()), configs.get((kind, EVERY), PluginConfig())
    return replace(own, properties={**shared.properties, **own.properties})


def load_one(
    kind: str, entry: EntryPoint, config: PluginConfig, open_plugin: Open, timeout: float, *, masks: Masks
) -> Loaded:
    """In a separate thread, so that a plugin that hangs does not block the start."""
    if not config.enabled:
        return Loaded(report=report(kind, entry, "off", "switched off in the settings"), config=config)
    answers: list[Loaded] = []
    work = threading.Thread(
        target=lambda: answers.append(opened(kind, entry, config, open_plugin, masks)), name=f"load-{entry.name}",
        daemon=True,
    )  # fmt: skip
    work.start()
    work.join(timeout)
    if not answers:
        why = f"it was not imported and opened within {timeout:.0f} s"
        return Loaded(report=report(kind, entry, "broken", why))
    return answers[0]


def opened(kind: str, entry: EntryPoint, config: PluginConfig, open_plugin: Open, masks: Masks) -> Loaded:
    try:
        plugin = entry.load()()
        if not isinstance(plugin, CONTRACTS[kind]):
            raise PluginBroken(f"{entry.value} is not of type {CONTRACTS[kind].__name__}")
        check_word(plugin, "format" if kind == "table-format" else "name")
        open_plugin(plugin, config)
        proxy = proxy_of(plugin)
        for breaker in proxy.breakers:
            breaker.name, breaker.masks = entry.name, masks
        strategies = strategies_of(proxy) if kind == "process-factory" else {}
        check_states(plugin)
        listed = report(kind, entry, "on", priority=config.priority, pairs=pairs_of(proxy), strategies=strategies)
        settings = plugin.settings if isinstance(plugin, FormatFactory) else None
        return Loaded(
            report=listed, plugin=proxy, config=config, strategies=strategies, settings=settings,
            metrics=metrics_of(plugin),
        )  # fmt: skip
    except (Exception, SystemExit) as error:
        log.warning("a plugin is broken and stays off", exc_info=True, extra={"plugin": entry.name, "kind": kind})
        why = masks.hide(f"{type(error).__name__}: {error}")
        return Loaded(report=report(kind, entry, "broken", why, config.priority))


def check_word(plugin: object, attribute: str) -> None:
    word = getattr(plugin, attribute, None)
    if not isinstance(word, str) or not word.strip() or len(word) > 64:
        raise PluginBroken(f"its class has no {attribute}: set {attribute} to a word of at most 64 characters")


def check_states(plugin: object) -> None:
    if isinstance(plugin, ProcessFactory):
        keys = list(plugin.required_states())
        if not all(isinstance(key, StateKey) for key in keys) or len({key.name for key in keys}) < len(keys):
            raise PluginBroken("its required_states are not a set of StateKeys with different names")


def metrics_of(plugin: Any) -> Sequence[PluginMetric]:
    found = tuple(plugin.metrics())
    if not all(isinstance(one, PluginMetric) and one.kind for one in found):
        raise PluginBroken("its metrics are not all a Counter or a Gauge")
    return found


def strategies_of(factory: ProcessFactory) -> Mapping[Pair, ProcessTriggerStrategy]:
    """The supported actions with their strategies."""
    supported = factory.supported_actions()
    return {(n, a): factory.trigger_strategy(n, a) for n, actions in supported.items() for a in sorted(actions)}


def report(
    kind: str, entry: EntryPoint, state: str, reason: str = "", priority: int = 0, *,
    pairs: Mapping[str, list[str]] | None = None, strategies: Mapping[Pair, ProcessTriggerStrategy] | None = None,
) -> PluginReport:  # fmt: skip
    return PluginReport(
        kind=kind, name=entry.name, distribution=distribution_of(entry), state=state, reason=reason,
        version=entry.dist.version if entry.dist else "", priority=priority, pairs=pairs or {},
        strategies=tuple(pair_report(pair, strategy) for pair, strategy in (strategies or {}).items()),
    )  # fmt: skip


def pair_report(pair: Pair, strategy: ProcessTriggerStrategy) -> PairReport:
    return PairReport(
        format=str(pair[0]), action=str(pair[1]), interval=strategy.interval, parallelism=strategy.parallelism,
        on_new_snapshot=strategy.on_new_snapshot,
    )  # fmt: skip


def distribution_of(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else ""


def pairs_of(plugin: object) -> Mapping[str, list[str]]:
    if isinstance(plugin, ProcessFactory):
        return {str(f): sorted(actions) for f, actions in plugin.supported_actions().items()}
    return {str(plugin.format): []} if isinstance(plugin, TableFormat) else {}


def refuse_equal_names(factories: Sequence[Loaded]) -> list[Loaded]:
    """Factories store state under their names: of two with the same name, the one with the lower priority is off."""
    kept: dict[str, Loaded] = {}
    for one in sorted((f for f in factories if f.plugin), key=lambda f: -f.priority):
        kept.setdefault(one.plugin.name, one)
    return [one if one.plugin is None else refused_for_name(one, kept[one.plugin.name]) for one in factories]


def refused_for_name(one: Loaded, holder: Loaded) -> Loaded:
    if one is holder:
        return one
    why = f"its class is named {one.plugin.name!r} like that of {holder.label}, and state is stored under that name"
    return Loaded(report=replace(one.report, state="broken", reason=why))


def claimed(loaded: Iterable[Loaded]) -> dict[Any, Loaded]:
    """The plugin with the highest priority for each claim; equal priorities are an error that names both."""
    winners: dict[Any, Loaded] = {}
    for one in loaded:
        for claim in one.claims:
            rival = winners.get(claim)
            if rival and rival.priority == one.priority:
                raise PluginBroken(
                    f"{rival.label} and {one.label} both {claim_text(one, claim)} with priority {one.priority}: "
                    "give one of them a higher priority or switch it off"
                )
            if rival is None or one.priority > rival.priority:
                winners[claim] = one
    return winners


def claim_text(one: Loaded, claim: Any) -> str:
    if one.report.kind == "process-factory":
        return f"do {claim[1]} for {claim[0]}"
    return f"read {claim} tables" if one.report.kind == "table-format" else f"are the engine {claim}"


def report_with_rival(one: Loaded, winners: Mapping[Any, Loaded]) -> PluginReport:
    rivals = [winners[claim] for claim in one.claims if winners[claim] is not one]
    if not rivals:
        return one.report
    return replace(one.report, state="off", reason=f"{rivals[0].label} has the higher priority")


def report_with_pairs(one: Loaded, winners: Mapping[Pair, Loaded]) -> PluginReport:
    """With the pairs that another plugin overrides, and those with a dry run."""
    if one.plugin is None:
        return one.report
    lost = {pair for pair in one.strategies if winners[pair] is not one}
    dry = one.plugin.dry_run_actions()
    listed_pairs = tuple(
        replace(listed, is_used=pair not in lost, dry_run=pair[1] in dry)
        for pair, listed in zip(one.strategies, one.report.strategies, strict=True)
    )
    rivals = sorted({winners[pair].label for pair in lost})
    reason = f"{', '.join(rivals)} has the higher priority for {len(lost)} of {len(listed_pairs)} pairs" if lost else ""
    return replace(one.report, strategies=listed_pairs, reason=reason)
