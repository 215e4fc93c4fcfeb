# SPDX-License-Identifier: Apache-2.0
"""Clusterings of a table seen from outside: one in its middle, to kill its driver there, and how many are done."""

import os
import signal
from pathlib import Path
from typing import Any

from tests.hudi_tables import completed, instant_files, timeline
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

INFLIGHT = ("clustering", "replacecommit")


def in_the_middle(path: Path) -> str | None:
    """The instant of a clustering that has begun to write files, and is not completed."""
    if not timeline(path).is_dir():
        return None
    for found in instant_files(path):
        if found[3] in INFLIGHT and found[4] == "inflight" and not completed(path, found[1]) and writes(path, found[1]):
            return found[1]
    return None


def writes(path: Path, instant: str) -> bool:
    return any((path / ".hoodie" / ".temp" / instant).rglob("*.marker*"))


def is_pending(path: Path, instant: str) -> bool:
    return not completed(path, instant) and any(timeline(path).glob(f"{instant}.*"))


def done(path: Path) -> list[str]:
    """Completed clusterings; these tables have no other replacecommits."""
    if not timeline(path).is_dir():
        return []
    return [f[1] for f in instant_files(path) if f[3] == "replacecommit" and not f[4]]


def kill_in_the_middle(service: RunningService, path: Path, table: int) -> str | None:
    """Kill the driver in the middle of a clustering of a table that is paused then. None: it was quicker."""
    known = done(path)
    wait_for(lambda: in_the_middle(path) or done(path) != known, f"a clustering of {path.name}", pace=0.01)
    signal_driver(service, signal.SIGSTOP)
    instant = in_the_middle(path)
    if instant is None:
        signal_driver(service, signal.SIGCONT)
        return None
    service.post(f"/api/v1/tables/{table}/pause")
    service.kill_driver()
    return instant


def signal_driver(service: RunningService, number: signal.Signals) -> None:
    """To its whole process group: Python and the JVM."""
    driver = service.driver()
    if driver is not None:
        os.killpg(os.getpgid(driver.pid), number)


def register(service: RunningService, path: Path, properties: dict[str, str]) -> int:
    wanted: dict[str, Any] = {"scheduling": "service", "properties": properties, "heartbeat_timeout": 2}
    return service.add_table(path, "clustering", "clean", **wanted)
