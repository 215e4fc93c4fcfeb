# SPDX-License-Identifier: Apache-2.0
"""The same attacks through every way in: a service that decides, a person who asks it, and ``lakehand maintain``."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import small_tables
from tests.attacks.scene import OLD, fingerprint, make_old
from tests.e2e.conftest import Start, lake, start_service
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

__all__ = ["lake", "start_service"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

LINK = "more"
FULL = {"delta.vacuum.mode": "full"}
MANY = 30  # small files that are worth a rewrite


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Somebody else's table, and files that look like those of a table."""
    folder = tmp_path / "outside"
    small_tables.delta(folder / "theirs", commits=MANY)
    (folder / "victims").mkdir()
    (folder / "victims" / "part-0.parquet").write_text("somebody else's")
    make_old(folder)
    return folder


def lost_file(table: Path) -> Path:
    """What a writer left ten days ago: a full vacuum deletes it."""
    file = Path(shutil.copy(next(table.glob("*.parquet")), table / "part-lost.parquet"))
    os.utime(file, (time.time() - OLD, time.time() - OLD))
    return file


def test_a_service_does_not_leave_a_table_by_a_link(lake: Path, outside: Path, start_service: Start) -> None:
    swapped, theirs = lake / "current", outside / "theirs"
    swapped.symlink_to(small_tables.delta(lake / "ours", commits=MANY))
    orders = small_tables.delta(lake / "orders", commits=3)
    lost = lost_file(orders)
    (orders / LINK).symlink_to(outside / "victims")
    before = fingerprint(outside)
    service = start_service()

    decided = service.add_table(swapped, "optimize", format="delta")
    wait_for(lambda: service.operations(table=decided, status="submitted"), "the rewrite to be admitted")
    swapped.unlink()
    swapped.symlink_to(theirs)  # long before the driver is there
    asked = service.add_table(orders, "vacuum", format="delta", properties=FULL)
    refused = [ended(service, decided), submitted(service, asked)]

    assert [(one["status"], one["failure"]["reason"]) for one in refused] == [("failed", "outside-table")] * 2
    assert f"{swapped} leads to {theirs} now" in refused[0]["failure"]["message"]
    assert f"{orders}/{LINK} is a link to {outside}/victims" in refused[1]["failure"]["message"]
    assert (fingerprint(outside), lost.exists()) == (before, True)
    (orders / LINK).unlink()
    assert submitted(service, asked)["status"] == "succeeded"
    assert (fingerprint(outside), lost.exists()) == (before, False)


@pytest.mark.long
def test_maintain_does_not_leave_a_table_by_a_link(tmp_path: Path, outside: Path) -> None:
    orders = small_tables.delta(tmp_path / "orders", commits=3)
    lost = lost_file(orders)
    (orders / LINK).symlink_to(outside / "victims")
    before = fingerprint(outside)

    code, report = maintained(orders, tmp_path)

    assert (code, [one["status"] for one in report["operations"]]) == (1, ["failed"])
    assert f"{orders}/{LINK} is a link to {outside}/victims" in report["operations"][0]["reason"]
    assert (fingerprint(outside), lost.exists()) == (before, True)
    (orders / LINK).unlink()
    code, report = maintained(orders, tmp_path)
    assert (code, [one["status"] for one in report["operations"]]) == (0, ["succeeded"])
    assert (fingerprint(outside), lost.exists()) == (before, False)


def submitted(service: RunningService, table: int) -> Any:
    """A person asks for a vacuum, and waits for its end."""
    body = {"table": table, "action": "vacuum", "confirm": True}
    return ended(service, table, service.post("/api/v1/operations", body)["id"])


def ended(service: RunningService, table: int, operation: int | None = None) -> Any:
    number = operation or service.operations(table=table)[0]["id"]

    def now() -> Any:
        found = service.get(f"/api/v1/operations/{number}")
        return found if found["status"] in ("succeeded", "failed", "dropped", "canceled") else None

    return wait_for(now, f"operation {number} to end")


def maintained(table: Path, folder: Path) -> tuple[int, Any]:
    words = ["--action", "vacuum", "--confirm", "--set", "delta.vacuum.mode=full", "--json"]
    command = [sys.executable, "-m", "lakehand.cli", "maintain", str(table), *words]
    known = {**os.environ, "LAKEHAND_HOME": str(folder / "home"), "TMPDIR": str(folder)}
    done = subprocess.run(command, cwd=folder, env=known, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("{"), done.stderr
    return done.returncode, json.loads(done.stdout)
