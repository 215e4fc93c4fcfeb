# SPDX-License-Identifier: Apache-2.0
"""What the service costs while nothing happens: processor and memory, with thousands of unchanged tables."""

import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import psutil

from bench.idle_tables import make_tables
from bench.report import Figure, print_line
from bench.service import serving
from lakehand.domain.tables import TableSpec
from lakehand.formats.hudi.factory import ACTIONS
from lakehand.formats.hudi.table import HUDI
from lakehand.store import migrate, open_store
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

TABLES = 10_000
PROBES = "lakehand_tables_probed_total"
TIMEOUT = 1200.0
SAMPLE = 1.0  # seconds


def run(folder: Path, *, quick: bool) -> list[Figure]:
    count, seconds = (1000, 20.0) if quick else (TABLES, 120.0)
    lake, home = folder / "lake", folder / "home"
    print_line(f"idle: making and registering {count} tables")
    register(f"sqlite:///{folder / 'lakehand.db'}", make_tables(lake, count))
    with serving(home, lake, database=f"sqlite:///{folder / 'lakehand.db'}") as service:
        wait_for(lambda: looks(service) >= count, "every table to be probed", TIMEOUT)
        process = psutil.Process(service.process.pid) if service.process else psutil.Process()
        wait_for(lambda: process.cpu_percent(interval=3) < 50, "the first looks to be over", TIMEOUT)
        print_line(f"idle: every table was probed; measuring {seconds:.0f} s")
        return measure(service, process, count, seconds)


def register(url: str, paths: Sequence[Path]) -> None:
    """Straight into the store, as the API would in an hour of a person's life."""
    migrate.upgrade(url)
    store = open_store(url)
    for path in paths:
        spec = TableSpec(location=str(path), format=HUDI, table_name=path.name, action_types=frozenset(ACTIONS))
        store.tables.add(spec, now=store.clock.now())
    store.close()


def looks(service: RunningService) -> float:
    lines = httpx.get(service.url + "/metrics").raise_for_status().text.splitlines()
    return float(next(line for line in lines if line.startswith(PROBES)).split()[1])


def measure(service: RunningService, process: psutil.Process, count: int, seconds: float) -> list[Figure]:
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
        Figure(bench="idle", name="tables probed", value=looked / took, unit="/s"),
        Figure(bench="idle", name="drivers running", value=float(service.driver() is not None)),
    ]
