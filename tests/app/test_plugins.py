# SPDX-License-Identifier: Apache-2.0
"""Plugins are found, switched, and reported; a broken one stops nobody."""

from collections.abc import Mapping
from datetime import timedelta
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from lakehand.app import plugins
from lakehand.app.plugins import PluginConfig, load
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import PluginReport
from lakehand.domain.errors import PluginBroken
from lakehand.domain.tables import Format
from lakehand.spi import Action, EngineContext, ProcessFactory, Skip, TableProcess, TableRuntime, Verdict
from tests.app.distributions import Installer
from tests.domain.words import COMPACTION

FOUND = {"lakehand.table_formats": {"hudi": "lakehand.formats.hudi:HudiFormat"}}


class Rival(ProcessFactory):
    """Claims what Hudi's own factory does."""

    name = "rival"

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {Format("hudi"): frozenset({COMPACTION})}

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        return Skip(reason="no")

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Any]) -> Verdict:
        raise AssertionError


def loaded(monkeypatch: pytest.MonkeyPatch, factories: dict[str, str], **configs: PluginConfig) -> Plugins:
    groups = {**FOUND, "lakehand.process_factories": factories}

    def found(*, group: str) -> list[EntryPoint]:
        return [EntryPoint(name=n, value=v, group=group) for n, v in groups.get(group, {}).items()]

    monkeypatch.setattr(plugins, "entry_points", found)
    chosen = {("process-factory", name): config for name, config in configs.items()}
    return load(chosen, lambda name, formats: EngineContext(home=Path(), formats=formats))


HUDI = {"hudi": "lakehand.formats.hudi:HudiProcessFactory"}
RIVAL = {"rival": f"{__name__}:Rival"}


def test_the_installed_plugins_are_all_on(tmp_path: Path) -> None:
    found = load({}, lambda name, formats: EngineContext(home=tmp_path, formats=formats))
    ours = {(r.kind, r.name): r.state for r in found.reports if r.distribution == "lakehand"}
    assert {("table-format", "hudi"), ("process-factory", "hudi"), ("engine", "spark")} <= set(ours)
    assert set(ours.values()) == {"on"}
    found.close()


def test_a_broken_plugin_is_reported_and_the_others_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(monkeypatch, {**HUDI, "sick": "no.such.module:Thing", "odd": "collections:OrderedDict"})
    states = {r.name: (r.state, r.reason) for r in found.reports if r.kind == "process-factory"}
    assert states["hudi"][0] == "on"
    assert states["sick"] == ("broken", "ModuleNotFoundError: No module named 'no'")
    assert states["odd"][0] == "broken"
    assert "is not of type ProcessFactory" in states["odd"][1]


def test_a_plugin_that_is_switched_off_answers_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(monkeypatch, HUDI, hudi=PluginConfig(enabled=False))
    assert found.factories == {}


def test_two_plugins_for_one_pair_are_an_error_that_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PluginBroken, match=r"hudi .* and rival .* both do compaction for hudi with priority 0"):
        loaded(monkeypatch, {**HUDI, **RIVAL})


def test_the_higher_priority_wins_and_the_other_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(monkeypatch, {**HUDI, **RIVAL}, rival=PluginConfig(priority=1))
    assert found.factory(Format("hudi"), COMPACTION).name == "rival"
    assert found.factory(Format("hudi"), Action("clean")).name == "hudi"
    [hudi] = [r for r in found.reports if (r.kind, r.name) == ("process-factory", "hudi")]
    assert {p.action: p.is_used for p in hudi.strategies if p.action in ("compaction", "clean")} == {
        "compaction": False,
        "clean": True,
    }
    assert "rival" in hudi.reason


FACTORY = """
from datetime import timedelta
from lakehand.spi import *

class Factory(ProcessFactory):
    name = "outside"
    def supported_actions(self):
        return {{Format("hudi"): frozenset({{Action.register("outside-work")}})}}
    def trigger_strategy(self, format, action):
        return ProcessTriggerStrategy(interval=timedelta(hours=2), on_new_snapshot=False, parallelism=3)
    def trigger(self, table, action):
        return Skip(reason="no")
    def verify(self, table, process, result):
        return Verdict(finding=Finding.DONE, reason="done")
{more}
"""


def outside(installer: Installer, more: str = "", *, timeout: float = 20.0, **named: Any) -> tuple[Plugins, Any]:
    """All installed plugins, and the report of the outside one."""
    installer.install("outside-dist", {"process_factories": {"outside": "Factory"}}, FACTORY.format(more=more), **named)
    found = load({}, None, timeout=timeout)
    [report] = [r for r in found.reports if r.distribution == "outside-dist"]
    return found, report


def test_an_outside_plugin_is_listed_with_all_that_it_does(installer: Installer) -> None:
    _, report = outside(installer)
    assert (report.name, report.version, report.state, report.reason) == ("outside", "1.5", "on", "")
    [pair] = report.strategies
    assert (pair.format, pair.action, pair.interval) == ("hudi", "outside-work", timedelta(hours=2))
    assert (pair.on_new_snapshot, pair.parallelism, pair.dry_run, pair.is_used) == (False, 3, False, True)


def long_name(body: str) -> str:
    return f'    def supported_actions(self):\n        return {{"hudi": frozenset({{{body}}})}}'


BROKEN = {
    "an import error": ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"),
    "an exit while it is imported": ("raise SystemExit(3)", "SystemExit: 3"),
    "an error when it is opened": ("    def open(self, properties): raise ValueError('no key')", "ValueError: no key"),
    "an error when it is asked what it does": ("    def supported_actions(self): 1 / 0", "ZeroDivisionError"),
    "nonsense when it is asked what it does": (
        "    def supported_actions(self): return 7",
        "returned int, not formats",
    ),
    "an unknown action": (long_name("Action('never-heard-of')"), "names the unknown action never-heard-of"),
    "a text for an action": (long_name("'compaction'"), "names 'compaction', which is not an action"),
    "an action of 33 letters": (long_name("Action.register('x' * 33)"), "is not an action name"),
    "a strategy that raises": ("    def trigger_strategy(self, format, action): 1 / 0", "ZeroDivisionError"),
    "a strategy that is none": (
        "    def trigger_strategy(self, format, action): return 5",
        "returned int, not a Process",
    ),
    "a strategy that never asks": (
        "    def trigger_strategy(self, f, a): return ProcessTriggerStrategy(on_new_snapshot=False)",
        "it would never be called",
    ),
    "an interval that does not pass": (
        "    def trigger_strategy(self, f, a): return at_fixed_rate(timedelta())",
        "not a positive duration",
    ),
    "no name": ("    name = ''", "its class has no name"),
}


@pytest.mark.parametrize("fault", sorted(BROKEN))
def test_whatever_is_wrong_with_an_outside_plugin_is_reported_and_harms_nobody(
    installer: Installer, fault: str
) -> None:
    more, why = BROKEN[fault]
    found, report = outside(installer, more)
    assert report.state == "broken"
    assert why in report.reason
    assert found.factory(Format("hudi"), COMPACTION).name == "hudi"
    assert {r.state for r in found.reports if r.distribution == "lakehand"} == {"on"}


def test_a_plugin_that_is_never_done_opening_is_left(installer: Installer) -> None:
    more = "    def open(self, properties):\n        import threading; threading.Event().wait()"
    found, report = outside(installer, more, timeout=3.0)
    assert (report.state, report.reason) == ("broken", "it was not imported and opened within 3 s")
    assert found.factory(Format("hudi"), COMPACTION).name == "hudi"


def test_a_plugin_whose_entry_point_has_our_name_is_broken_and_ours_is_on(installer: Installer) -> None:
    installer.install("outside-dist", {"process_factories": {"hudi": "Factory"}}, FACTORY.format(more=""))
    reports = {r.distribution: r for r in load({}, None).reports if (r.kind, r.name) == ("process-factory", "hudi")}
    assert reports["lakehand"].state == "on"
    assert reports["outside-dist"].state == "broken"
    assert "its name is taken by" in reports["outside-dist"].reason


def test_a_class_with_our_name_is_broken_because_state_is_kept_by_name(installer: Installer) -> None:
    found, report = outside(installer, "    name = 'hudi'")
    assert report.state == "broken"
    assert "like that of hudi (lakehand)" in report.reason
    assert found.factory(Format("hudi"), COMPACTION).name == "hudi"


FORMAT = """
from lakehand.spi import *

class Reader(TableFormat):
    format = Format("hudi")
    def probe(self, place):
        return "always the same"
    def inspect(self, place):
        raise OSError
"""


def test_two_plugins_that_read_one_format_are_an_error_that_names_both(installer: Installer) -> None:
    installer.install("outside-dist", {"table_formats": {"fast-hudi": "Reader"}}, FORMAT)
    with pytest.raises(PluginBroken, match=r"fast-hudi \(outside-dist\) and hudi \(lakehand\) both read hudi tables"):
        load({}, None)


def test_of_two_plugins_that_read_one_format_the_higher_priority_reads(installer: Installer) -> None:
    installer.install("outside-dist", {"table_formats": {"fast-hudi": "Reader"}}, FORMAT)
    found = load({("table-format", "fast-hudi"): PluginConfig(priority=1)}, None)
    assert found.format(Format("hudi")).inner.__class__.__name__ == "Reader"  # type: ignore[attr-defined]
    state = {r.name: (r.state, r.reason) for r in found.reports if r.kind == "table-format"}
    assert state["hudi"] == ("off", "fast-hudi (outside-dist) has the higher priority")


def test_two_engines_of_one_name_are_an_error_that_names_both(installer: Installer, tmp_path: Path) -> None:
    engine = "from lakehand.engines.spark import SparkEngine as Engine"
    installer.install("outside-dist", {"engines": {"other": "Engine"}}, engine)
    with pytest.raises(PluginBroken, match=r"other \(outside-dist\) and spark \(lakehand\) both are the engine spark"):
        load({}, lambda name, formats: EngineContext(home=tmp_path, formats=formats))


def test_the_properties_of_a_factory_are_its_own_whatever_its_entry_point_is_called(installer: Installer) -> None:
    installer.install("outside-dist", {"process_factories": {"nickname": "Factory"}}, FACTORY.format(more=""))
    found = load({("process-factory", "nickname"): PluginConfig(properties={"a": "1"})}, None)
    factory = found.factory(Format("hudi"), Action("outside-work"))
    assert (factory.name, found.properties_of(factory)) == ("outside", {"a": "1"})


def test_a_plugin_that_fails_to_close_keeps_nobody(installer: Installer) -> None:
    found, _ = outside(installer, "    def close(self): raise ValueError('on purpose')")
    found.close()


def test_the_listing_shows_how_a_plugin_behaves_now(installer: Installer) -> None:
    found, _ = outside(installer, "    def trigger(self, table, action): raise ValueError('on purpose')")
    factory = found.factory(Format("hudi"), Action("outside-work"))
    for _ in range(3):
        with pytest.raises(PluginBroken, match=r"outside\.trigger failed: ValueError: on purpose"):
            factory.trigger(None, Action("outside-work"))  # type: ignore[arg-type]
    listed = named(found, "outside")
    assert (listed.state, listed.errors) == ("failing", 3)
    assert listed.reason == "the last 3 calls failed; trigger: ValueError: on purpose"
    assert listed.last_error_at is not None


def named(found: Plugins, name: str) -> PluginReport:
    [report] = [r for r in found.listing() if r.name == name]
    return report
