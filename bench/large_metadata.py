# SPDX-License-Identifier: Apache-2.0
"""The slowest answer on the wire, and the memory, while Iceberg tables of large metadata are evaluated."""

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import psutil

from bench.report import Figure, print_line
from bench.service import serving
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

TABLES, SNAPSHOTS = 5, 390_000  # 232 MB of metadata each
QUICK = 40_000
PAUSE = 0.01  # seconds between two notifications
ANSWERS = 1000  # of the idle service
ID = {"id": 1, "name": "id", "required": False, "type": "long"}
MB = 1024**2


def run(folder: Path, *, quick: bool) -> list[Figure]:
    lake = folder / "lake"
    tables = [make_table(lake / f"t{number}", QUICK if quick else SNAPSHOTS) for number in range(TABLES)]
    size = (tables[0] / "metadata" / "v1.metadata.json").stat().st_size
    print_line(f"large-metadata: {TABLES} tables with {size / MB:.0f} MB of metadata each")
    with serving(folder / "home", lake) as service:
        with Probe(service, lake / "orders") as idle:
            wait_for(lambda: len(idle.latencies) >= ANSWERS, "answers of an idle service")
        with Probe(service, lake / "orders") as busy:
            seconds = evaluated(service, tables)
    return list(figures(idle, busy, seconds))


def evaluated(service: RunningService, tables: Sequence[Path]) -> float:
    """Seconds until each of them has a reason."""
    began = time.monotonic()
    numbers = [service.add_table(table, "rewrite-manifests", format="iceberg") for table in tables]
    for number in numbers:
        reason = wait_for(partial(decided, service, number), f"a decision about table {number}", 900)
        print_line(f"large-metadata: table {number} after {time.monotonic() - began:.0f} s: {reason}")
    return time.monotonic() - began


def figures(idle: "Probe", busy: "Probe", seconds: float) -> Iterator[Figure]:
    figure = partial(Figure, bench="large-metadata")
    yield figure(name="until all tables were decided", value=seconds, unit="s")
    yield from answers(idle, "idle")
    yield from answers(busy, "meanwhile", at_most=100)
    yield figure(name="memory of the service, at most", value=busy.memory / MB, unit="MB")
    yield figure(name="memory of its parser, at most", value=busy.parser / MB, unit="MB")


def answers(probe: "Probe", when: str, at_most: float | None = None) -> Iterator[Figure]:
    """The slowest, and the slowest hundredth."""
    seen = sorted(1000 * seconds for seconds in probe.latencies)
    figure = partial(Figure, bench="large-metadata", unit="ms")
    yield figure(name=f"slowest of {len(seen)} answers, {when}", value=seen[-1], at_most=at_most)
    yield figure(name=f"p99 of {len(seen)} answers, {when}", value=seen[int(len(seen) * 0.99)])


def decided(service: RunningService, table: int) -> str:
    """The reason of the table's only action, once it was evaluated."""
    found = service.get(f"/api/v1/tables/{table}/explain")
    return next((str(one["now"]) for one in found["actions"] if one.get("last_decision")), "") or problem_of(found)


def problem_of(found: dict[str, Any]) -> str:
    problem = found["table"].get("problem")
    return f"cannot be read: {problem}" if problem else ""


class Probe:
    """Notifies again and again, as a writer that holds its lock, and measures the memory."""

    def __init__(self, service: RunningService, location: Path) -> None:
        assert service.process is not None
        self.service = service
        self.location = location
        self.process = psutil.Process(service.process.pid)
        self.latencies: list[float] = []
        self.memory = self.parser = 0
        self._over = Event()
        self._threads = [Thread(target=self.notify), Thread(target=self.measure)]

    def __enter__(self) -> "Probe":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def notify(self) -> None:
        query = {"basepath": str(self.location), "table_name": "orders", "action": "REQUEST"}
        with httpx.Client(base_url=self.service.url, timeout=60) as client:
            while not self._over.wait(PAUSE):
                began = time.perf_counter()
                client.get("/v1/hoodie/service/compact", params=query).raise_for_status()
                self.latencies.append(time.perf_counter() - began)

    def measure(self) -> None:
        while not self._over.wait(0.1):
            self.memory = max(self.memory, self.process.memory_info().rss)
            for child in self.process.children():
                try:
                    self.parser = max(self.parser, child.memory_info().rss)
                except psutil.Error:  # it has ended
                    continue


def make_table(table: Path, snapshots: int) -> Path:
    """A table in Hadoop layout with a long history; its newest snapshot has no files."""
    now = int(time.time() * 1000)
    head = 10**15 + snapshots - 1
    document = {
        "format-version": 2, "table-uuid": f"uuid-of-{table.name}", "location": str(table), "last-column-id": 1,
        "last-updated-ms": now, "properties": {}, "default-spec-id": 0, "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "schemas": [{"schema-id": 0, "type": "struct", "fields": [ID]}],
        "refs": {"main": {"snapshot-id": head, "type": "branch"}}, "current-snapshot-id": head,
        "snapshots": [
            snapshot_of(table, number, now - 1000 * (snapshots - number), is_newest=number == snapshots - 1)
            for number in range(snapshots)
        ],
    }  # fmt: skip
    file = table / "metadata" / "v1.metadata.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(document))
    (file.parent / "version-hint.text").write_text("1")
    return table


def snapshot_of(table: Path, number: int, at: int, *, is_newest: bool) -> dict[str, Any]:
    summary = {
        "operation": "append", "spark.app.id": "application_1700000000000_0001", "added-data-files": "1",
        "added-records": str(number), "added-files-size": str(1000 + number), "changed-partition-count": "1",
        "total-records": str(number * 10), "total-files-size": str(number * 1000), "total-data-files": str(number),
        "total-delete-files": "0", "total-position-deletes": "0", "total-equality-deletes": "0",
    }  # fmt: skip
    parent = {"parent-snapshot-id": 10**15 + number - 1} if number else {}
    files: dict[str, Any] = (
        {"manifests": []} if is_newest else {"manifest-list": f"{table}/metadata/snap-{number}.avro"}
    )
    return {
        "snapshot-id": 10**15 + number, **parent, "sequence-number": number + 1, "timestamp-ms": at, "schema-id": 0,
        "summary": summary, **files,
    }  # fmt: skip
