# SPDX-License-Identifier: Apache-2.0
"""What the service costs while nothing happens: processor and memory, with thousands of unchanged tables."""

import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import psutil

from bench.idle_tables import make_tables
from bench.report import Figure, say
from bench.service import serving
from tests.e2e.service import RunningService, wait_for

TABLES = 10_000
LOOKS = "lakehand_tables_looked_at_total"
PATIENCE = 1200.0
SAMPLE = 1.0  # seconds


def run(folder: Path, *, quick: bool) -> list[Figure]:
    count, seconds = (1000, 20.0) if quick else (TABLES, 120.0)
    lake = folder / "lake"
    say(f"idle: making and registering {count} tables")
    paths = make_tables(lake, count)
    with serving(folder / "home", lake) as service:
        register(service, paths)
        wait_for(lambda: looks(service) >= count, "every table to be looked at", PATIENCE)
        settle(service)
        say(f"idle: every table was looked at; measuring {seconds:.0f} s")
        return measure(service, count, seconds)


def register(service: RunningService, paths: Sequence[Path]) -> None:
    with httpx.Client(base_url=service.url, timeout=30) as client:
        for path in paths:
            body = {"location": str(path), "format": "hudi", "action_types": ["compaction", "clustering", "clean"]}
            client.post("/api/v1/tables", json=body).raise_for_status()


def looks(service: RunningService) -> float:
    lines = httpx.get(service.url + "/metrics").raise_for_status().text.splitlines()
    return float(next(line for line in lines if line.startswith(LOOKS)).split()[1])


def settle(service: RunningService) -> None:
    """Until a few seconds bring no more looks than the heartbeat does."""
    process = psutil.Process(service.process.pid) if service.process else psutil.Process()
    wait_for(lambda: process.cpu_percent(interval=3) < 50, "the first looks to be over", PATIENCE)


def measure(service: RunningService, count: int, seconds: float) -> list[Figure]:
    assert service.process is not None
    process = psutil.Process(service.process.pid)
    looked, began, before = looks(service), time.perf_counter(), process.cpu_times()
    most = process.memory_info().rss
    while time.perf_counter() - began < seconds:
        time.sleep(SAMPLE)
        most = max(most, process.memory_info().rss)
    took, after = time.perf_counter() - began, process.cpu_times()
    share = (after.user + after.system - before.user - before.system) / took
    looked = looks(service) - looked
    return [
        Figure(
            bench="idle", name=f"processor, {count} tables, {seconds:.0f} s", value=100 * share, unit="%", at_most=5
        ),
        Figure(bench="idle", name="memory (RSS), most", value=most / 1e6, unit="MB", at_most=300),
        Figure(bench="idle", name="tables looked at", value=looked / took, unit="/s"),
        Figure(bench="idle", name="drivers running", value=float(service.driver() is not None)),
    ]
