# SPDX-License-Identifier: Apache-2.0
"""The outside plugin and the outside engine: installed, shown, and used by a real service."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.e2e.conftest import Start
from tests.examples.conftest import EXAMPLES, SUBPROCESS, SiteFolder
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = pytest.mark.server
ACTION = "generate-manifest"
DAY = 86_400  # seconds


@pytest.fixture
def seen(examples: SiteFolder, monkeypatch: pytest.MonkeyPatch) -> SiteFolder:
    """This process and those that it starts see what is installed."""
    monkeypatch.setenv("PYTHONPATH", examples.environment["PYTHONPATH"])
    return examples


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(path.parent.name for path in EXAMPLES.glob("*/pyproject.toml")))
def test_its_own_tests_pass_with_what_is_installed(name: str, examples: SiteFolder, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "tests")]
    ran = subprocess.run(
        command, cwd=EXAMPLES / name, env=examples.environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout


def plugins_of(service: RunningService) -> dict[tuple[str, str], dict[str, Any]]:
    """The output of ``lakehand plugins --json``, by kind and name."""
    command = [sys.executable, "-m", "lakehand.cli", "plugins", "--json", "--url", service.url]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {(one["kind"], one["name"]): one for one in json.loads(shown)["items"]}


def manifest_lines(table: Path) -> list[str]:
    return (table / "_symlink_format_manifest" / "manifest").read_text().split()


def test_both_are_shown_and_the_action_runs_on_the_outside_engine(
    seen: SiteFolder, orders: Path, start_service: Start, configure: Callable[[str], None]
) -> None:
    configure(SUBPROCESS)
    service = start_service()
    shown = plugins_of(service)
    factory, engine = shown["process-factory", "delta-manifest"], shown["engine", "subprocess"]
    assert (factory["distribution"], factory["version"]) == ("lakehand-delta-manifest", "0.1.0")
    assert (engine["distribution"], engine["version"]) == ("lakehand-subprocess-engine", "0.1.0")
    assert (factory["state"], engine["state"]) == ("on", "on")

    service.add_table(orders, ACTION, format="delta")
    done = service.wait_status(orders, "succeeded", "failed", "dropped", action=ACTION)

    assert (done["status"], done["engine"]) == ("succeeded", "subprocess")
    assert done["reason"] == "the manifest names all 3 files of version 2"
    assert len(manifest_lines(orders)) == 3
    text = service.get(f"/api/v1/operations/{done['id']}/logs")["text"]
    assert "delta_manifest.jobs:generate_in_python on orders" in text


def test_what_a_person_asks_for_runs_on_the_engine_that_its_factory_chooses(
    seen: SiteFolder, orders: Path, start_service: Start, configure: Callable[[str], None]
) -> None:
    configure(SUBPROCESS)
    service = start_service()
    table = service.add_table(orders, ACTION, format="delta", heartbeat_timeout=DAY)
    done = service.wait_status(orders, "succeeded", action=ACTION)
    wait_for(lambda: was_evaluated_since(service, table, done["finished_at"]), "the next evaluation")
    write_deltalake(str(orders), pa.table({"id": [99]}), mode="append")
    asked = service.post("/api/v1/operations", {"table": table, "action": ACTION})["id"]
    wait_for(lambda: service.get(f"/api/v1/operations/{asked}")["status"] == "succeeded", "the requested operation")

    assert service.get(f"/api/v1/operations/{asked}")["engine"] == "subprocess"
    assert len(manifest_lines(orders)) == 4


def was_evaluated_since(service: RunningService, table: int, moment: str) -> bool:
    """Then only a person asks about the table for a long time."""
    actions = service.get(f"/api/v1/tables/{table}/explain")["actions"]
    return any(one["action"] == ACTION and one["evaluated_at"] > moment for one in actions)


@pytest.mark.spark
@pytest.mark.long
def test_the_action_runs_on_the_spark_engine_and_the_table_then_rests(
    seen: SiteFolder, orders: Path, start_service: Start
) -> None:
    service = start_service()
    table = service.add_table(orders, ACTION, format="delta")
    done = service.wait_status(orders, "succeeded", "failed", "dropped", action=ACTION)

    assert (done["status"], done["engine"]) == ("succeeded", "spark"), done
    assert len(manifest_lines(orders)) == 3

    def rests() -> bool:
        actions = service.get(f"/api/v1/tables/{table}/explain")["actions"]
        [now] = [one["now"] for one in actions if one["action"] == ACTION]
        return bool(now == "the manifest names all 3 files of version 2")

    wait_for(rests, "a reason why the table rests")
