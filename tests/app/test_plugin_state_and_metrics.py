# SPDX-License-Identifier: Apache-2.0
"""An installed plugin in a service: the state that it keeps of each table, and what /metrics shows of it."""

import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from lakehand.app import wiring
from lakehand.app.plugins import load
from lakehand.app.settings import load as read_settings
from lakehand.app.wiring import Service
from lakehand.core.ports import PluginReport
from lakehand.domain.tables import Format, TableId, TableSpec
from lakehand.spi import Action, Gauge
from lakehand.store import migrate
from tests import small_tables
from tests.app.distributions import Installer
from tests.kit.polling import wait_for

# Counts how often each table was looked at. It declares what it needs, unless a test takes that away.
PLUGIN = """
from lakehand.spi import Action, Counter, Finding, Format, Gauge, ProcessFactory, Skip, StateKey, Verdict

VISITS = StateKey(name="visits", default=0, encode=str, decode=int)
LAST = StateKey(name="last", default="", encode=str, decode=str)


class Visits(ProcessFactory):
    name = "acme-visits"

    def __init__(self):
        self.visits = Counter("visits", "Tables that were looked at.", labels=("table",), most=2)
        self.most = Gauge("most_visits", "The most visits of one table.")

    def required_states(self):
        return {VISITS}

    def metrics(self):
        return self.visits, self.most

    def supported_actions(self):
        return {Format("delta"): frozenset({Action.register("visit")})}

    def trigger(self, table, action):
        count = table.update_state(VISITS, lambda known: known + 1)
        if table.config.text("acme.also-last"):
            table.state(LAST)
        return Skip(reason=f"visited {count} times")

    def state_changed(self, table, key, before, after):
        self.visits.add(after - before, table=table.table.name)
        self.most.set(after)

    def verify(self, table, process, result):
        return Verdict(finding=Finding.NOT_DONE, reason="nothing to do")
"""
VISIT = Action("visit")
Build = Callable[[str], Service]


@pytest.fixture
def build(installer: Installer, tmp_path: Path) -> Iterator[Build]:
    """A service with the plugin, as this text of it says."""
    built: list[Service] = []

    def of(source: str) -> Service:
        installer.install("acme-visits", {"process_factories": {"acme-visits": "Visits"}}, source)
        (tmp_path / "home").mkdir(mode=0o700)
        flags = {
            "home": tmp_path / "home",
            "database": f"sqlite:///{tmp_path}/l.db",
            "warehouses": [f"{tmp_path}/lake"],
        }
        settings = read_settings(flags)
        migrate.upgrade(settings.database_url)
        built.append(wiring.build(settings))
        return built[-1]

    yield of
    for service in built:
        service.stop()
        service.store.close()


def add_table(service: Service, path: Path, **properties: str) -> TableId:
    spec = TableSpec(
        location=str(small_tables.delta(path, commits=1)), format=Format("delta"), action_types=frozenset({VISIT}),
        properties=properties,
    )  # fmt: skip
    return service.tables.register(spec)[0].id


def visit(service: Service, table: TableId) -> str:
    """The reason of the next decision."""
    service.tables.evaluate_now(table)
    for _ in range(2):
        wait_for(partial(are_stored, service), "all evaluations to be stored")
    [schedule] = service.store.schedules.of_table(table)
    return schedule.last_reason


def are_stored(service: Service) -> bool:
    service.coordinator.run_once()
    return not service.coordinator.unfinished


def shown(service: Service) -> dict[str, float]:
    """What /metrics has of the plugin."""
    lines = service.metrics.text()[0].decode().splitlines()
    found = (re.fullmatch(r"(lakehand_plugin_acme\S+) (\S+)", line) for line in lines)
    return {one[1]: float(one[2]) for one in found if one}


def the_report(service: Service) -> PluginReport:
    [found] = [one for one in service.plugins.listing() if one.name == "acme-visits"]
    return found


def test_what_it_stores_is_its_own_and_each_change_reaches_its_hook(build: Build, tmp_path: Path) -> None:
    service = build(PLUGIN)
    first = add_table(service, tmp_path / "lake" / "a")
    reasons = [visit(service, first)]
    reasons += [visit(service, add_table(service, tmp_path / "lake" / "b")), visit(service, first)]

    assert reasons == ["visited 1 times", "visited 1 times", "visited 2 times"]
    assert shown(service) == {
        'lakehand_plugin_acme_visits_visits_total{table="a"}': 2,
        'lakehand_plugin_acme_visits_visits_total{table="b"}': 1,
        "lakehand_plugin_acme_visits_most_visits": 2,
    }


def test_labels_that_are_beyond_the_bound_are_counted_together(build: Build, tmp_path: Path) -> None:
    service = build(PLUGIN)

    for name in ("a", "b", "c", "d"):
        visit(service, add_table(service, tmp_path / "lake" / name))

    counted = {name: number for name, number in shown(service).items() if "{" in name}
    prefix = "lakehand_plugin_acme_visits_visits_total"
    assert counted == {f'{prefix}{{table="{name}"}}': number for name, number in (("a", 1), ("b", 1), ("other", 2))}


def test_a_state_that_it_has_not_declared_is_an_error_that_names_it(build: Build, tmp_path: Path) -> None:
    service = build(PLUGIN)
    table = add_table(service, tmp_path / "lake" / "a", **{"acme.also-last": "yes"})

    reason = visit(service, table)

    assert "acme-visits.trigger failed" in reason
    assert "'last'" in reason
    assert "required_states" in reason
    assert the_report(service).errors == 1


@pytest.mark.parametrize(
    ("says", "instead", "why"),
    [
        ("return {VISITS}", 'return ["visits"]', "required_states"),
        ("return self.visits, self.most", 'return ["visits"]', "metrics"),
        ('Counter("visits"', 'Counter("Visits"', "Visits"),
        ('Counter("visits"', 'Counter("visits_total"', "_total"),
        ("most=2", "most=100_000", "100000"),
        ('labels=("table",)', 'labels=("le",)', "le"),
    ],
)
def test_what_cannot_be_kept_or_shown_breaks_the_plugin_at_the_start(
    installer: Installer, says: str, instead: str, why: str
) -> None:
    assert says in PLUGIN
    installer.install("acme-visits", {"process_factories": {"acme-visits": "Visits"}}, PLUGIN.replace(says, instead))

    [found] = [one for one in load({}, None).reports if one.name == "acme-visits"]

    assert found.state == "broken"
    assert why in found.reason


def test_a_name_that_is_taken_is_left_out_with_a_line_in_the_log(
    build: Build, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = build(PLUGIN)
    [visits, *_] = [metric for plugin, metric in service.plugins.metrics if plugin == "acme-visits"]

    with caplog.at_level(logging.WARNING):
        service.metrics.add_plugin_metrics([("Acme visits", visits), ("hangs", Gauge("total", "Something else."))])

    visit(service, add_table(service, tmp_path / "lake" / "a"))
    assert len([one for one in caplog.records if "its name is taken" in one.getMessage()]) == 2
    assert shown(service)['lakehand_plugin_acme_visits_visits_total{table="a"}'] == 1
