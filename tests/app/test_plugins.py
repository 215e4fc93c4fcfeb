# SPDX-License-Identifier: Apache-2.0
"""Plugins are found, switched, and reported; a broken one stops nobody."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from lakehand.app import plugins
from lakehand.app.plugins import PluginConfig, load
from lakehand.core.plugins import Plugins
from lakehand.domain.errors import PluginBroken
from lakehand.domain.tables import Format
from lakehand.spi import Action, EngineContext, ProcessFactory, Skip, TableProcess, TableRuntime, Verdict
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
    assert {(r.kind, r.name, r.state) for r in found.reports} == {
        ("table-format", "hudi", "on"),
        ("process-factory", "hudi", "on"),
        ("engine", "spark", "on"),
    }
    found.close()


def test_a_broken_plugin_is_reported_and_the_others_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(monkeypatch, {**HUDI, "sick": "no.such.module:Thing", "odd": "collections:OrderedDict"})
    states = {r.name: (r.state, r.reason) for r in found.reports if r.kind == "process-factory"}
    assert states["hudi"][0] == "on"
    assert states["sick"] == ("broken", "ModuleNotFoundError: No module named 'no'")
    assert states["odd"][0] == "broken"
    assert "is no ProcessFactory" in states["odd"][1]


def test_a_plugin_that_is_switched_off_answers_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(monkeypatch, HUDI, hudi=PluginConfig(enabled=False))
    assert found.factories == {}


def test_two_plugins_for_one_pair_are_an_error_that_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PluginBroken, match="hudi and rival both do compaction for hudi"):
        loaded(monkeypatch, {**HUDI, **RIVAL})


def test_the_higher_priority_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(monkeypatch, {**HUDI, **RIVAL}, rival=PluginConfig(priority=1))
    assert found.factory(Format("hudi"), COMPACTION).name == "rival"
    assert found.factory(Format("hudi"), Action("clean")).name == "hudi"
