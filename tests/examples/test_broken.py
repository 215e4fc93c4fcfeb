# SPDX-License-Identifier: Apache-2.0
"""Broken plugins installed beside healthy ones: each is shown with its reason, and no other plugin is harmed."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.e2e.conftest import Start
from tests.examples.conftest import SUBPROCESS, SiteFolder, make_orders
from tests.examples.test_installed import manifest_lines, plugins_of
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = pytest.mark.long
GOOD = "generate-manifest"
FACTORIES, ENGINES = "lakehand.process_factories", "lakehand.engines"

FACTORY = """
import time
from lakehand.spi import Action, Finding, ProcessFactory, Skip, TableProcess, Verdict

class Bad(ProcessFactory):
    name = "{name}"

    def supported_actions(self):
        return {{"delta": frozenset({{{action}}})}}

    def trigger(self, table, action):
        {trigger}

    def verify(self, table, process, result):
        return Verdict(finding=Finding.NOT_DONE, reason="nothing was done")
"""
ENGINE = """
import time
from subprocess_engine import SubprocessEngine

class Bad(SubprocessEngine):
    name = "{name}"

    def open(self, properties, context):
        super().open(properties, context)
        {open}

    def status(self, handles):
        {status}
"""
FINE = "pass"
# The service would wait a minute for each probe of a table; it reads this after its plugins are imported.
IMPATIENT = "from lakehand.app import wiring\nwiring.EVALUATE_TIMEOUT = 8.0\n"


def factory(name: str, trigger: str, action: str = "") -> str:
    return FACTORY.format(name=name, trigger=trigger, action=action or f'Action.register("{name}")')


def engine(name: str, *, open: str = FINE, status: str = "return super().status(handles)") -> str:
    return ENGINE.format(name=name, open=open, status=status)


# How each is made, its state, and what its reason must contain.
BROKEN: dict[tuple[str, str], tuple[str, str, str]] = {
    (FACTORIES, "no-import"): ("import a_module_that_is_not_there", "broken", "a_module_that_is_not_there"),
    (FACTORIES, "no-class"): ("Bad = 7", "broken", "'int' object is not callable"),
    (FACTORIES, "odd-action"): (factory("odd-action", FINE, '"Do It!"'), "broken", "'Do It!'"),
    (FACTORIES, "long-action"): (
        factory("long-action", FINE, f'Action.register("{"x" * 33}")'), "broken", "at most 32 characters",
    ),
    (FACTORIES, "raises"): (factory("raises", 'raise KeyError("the moon")'), "failing", "KeyError: 'the moon'"),
    (FACTORIES, "says-yes"): (factory("says-yes", 'return "yes"'), "failing", "returned str, not one of: TableProcess"),
    (FACTORIES, "never-ends"): (
        IMPATIENT + factory("never-ends", "while True: time.sleep(0.01)"), "slow", "trigger had not come back after",
    ),
    (FACTORIES, "sends-away"): (
        factory("sends-away", 'return TableProcess(action=action, engine="confused", job="x:y", reason="I want to")'),
        "on", "",
    ),
    (ENGINES, "unopened"): (engine("unopened", open='raise OSError("no room")'), "broken", "OSError: no room"),
    (ENGINES, "confused"): (engine("confused", status='raise ValueError("who?")'), "failing", "ValueError: who?"),
}  # fmt: skip
ACTIONS = ("raises", "says-yes", "never-ends", "sends-away")


@pytest.fixture
def crowded(examples: SiteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteFolder:
    """The healthy ones and all the broken ones, each a distribution of its own."""
    site = SiteFolder(folder=tmp_path / "site")
    site.folder.mkdir()
    for (group, name), (source, _, _) in BROKEN.items():
        site.write_plugin(name, source, {group: "Bad"})
    monkeypatch.setenv("PYTHONPATH", f"{site.folder}:{examples.environment['PYTHONPATH']}")
    return site


def explained(service: RunningService, table: int) -> dict[str, str]:
    """The reason of each action in explain."""
    return {one["action"]: one["now"] for one in service.get(f"/api/v1/tables/{table}/explain")["actions"]}


def differences(service: RunningService) -> dict[str, Any]:
    """The broken ones that are not shown as expected, yet."""
    shown = {one["name"]: one for one in service.get("/api/v1/plugins")["items"]}
    wrong = {}
    for (_, name), (_, state, reason) in BROKEN.items():
        one = shown[name]
        if one["state"] != state or reason not in one["reason"] or one["distribution"] != name:
            wrong[name] = one
    return wrong


def wait_for_all(service: RunningService) -> None:
    try:
        wait_for(lambda: not differences(service), "every broken plugin to be shown", timeout=150)
    except AssertionError:
        assert differences(service) == {}


def change(table: Path) -> None:
    write_deltalake(str(table), pa.table({"id": [99]}), mode="append")


@pytest.mark.long
def test_ten_broken_plugins_harm_nobody_and_each_is_shown_with_its_reason(
    crowded: SiteFolder, lake: Path, orders: Path, start_service: Start, configure: Callable[[str], None]
) -> None:
    configure(SUBPROCESS)
    service = start_service(lease="20", lease_margin="3")
    victim = make_orders(lake / "victim")
    served = service.add_table(victim, *ACTIONS, GOOD, format="delta", heartbeat_timeout=1)
    service.add_table(orders, GOOD, format="delta", heartbeat_timeout=1)

    for table in (orders, victim):
        service.wait_status(table, "succeeded", action=GOOD)
    wait_for_all(service)
    change(orders)
    wait_for(lambda: len(manifest_lines(orders)) == 4, "the healthy table to be served again")

    assert plugins_of(service)["process-factory", "delta-manifest"]["state"] == "on"
    now = explained(service, served)
    assert re.search("trigger had not come back after", now["never-ends"]), now
    assert "raises.trigger failed: KeyError: 'the moon'" in now["raises"]
    assert "says-yes.trigger returned str" in now["says-yes"]
    assert re.fullmatch(r"operation \d+ is (submitted|unknown).*", now["sends-away"]), now
    assert now[GOOD].startswith("the manifest names all 3 files")


def test_an_action_that_no_plugin_does_is_refused_by_name(
    crowded: SiteFolder, orders: Path, start_service: Start, configure: Callable[[str], None]
) -> None:
    configure(SUBPROCESS)
    service = start_service()
    body = {"location": str(orders), "format": "delta", "action_types": ["odd-action"]}
    answer = httpx.post(f"{service.url}/api/v1/tables", json=body, timeout=30)

    assert answer.status_code == 422, answer.text
    assert "odd-action: nobody does that for delta tables; known are" in answer.text
    assert GOOD in answer.text
