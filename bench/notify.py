# SPDX-License-Identifier: Apache-2.0
"""Durable notifications per second, and their slowest hundredth, against empty handlers of the same server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from bench.commits import commit_rate
from bench.load import BARE, FRESH, REPEATED, ROUTED, Load, Seen, drive
from bench.report import Figure, print_line
from bench.service import port_of, serving
from tests.databases import postgresql
from tests.kit.service import RunningService

CONNECTIONS = 16
TABLES = 1000  # of each, a hundred plans may wait: beyond that, dropping would be measured
KINDS = (BARE, FRESH, ROUTED, REPEATED)
NAMES = {
    BARE: "empty handler, bare",
    ROUTED: "empty handler, framework",
    FRESH: "new plans",
    REPEATED: "repeats",
}


@dataclass(kw_only=True)
class Notify:
    database: str  # its kind
    seconds: float
    rounds: int
    stored: int = 0
    processor: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))  # seconds of the service
    seen: dict[str, list[Seen]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def run(self, folder: Path, url: str) -> list[Figure]:
        lake = folder / "lake"
        lake.mkdir()
        with serving(folder / "home", lake, database=url, program="bench.empty_handler") as service:
            locations = register(service, lake)
            for number in range(self.rounds):
                for kind in KINDS if number % 2 == 0 else reversed(KINDS):
                    with self.watched(kind, service):
                        self.load(kind, port_of(service), locations)
        commits = commit_rate(url, self.seconds)
        return [*self.rates(), self.figure("single rows committed, one connection", commits, "/s")]

    @contextmanager
    def watched(self, kind: str, service: RunningService) -> Iterator[None]:
        assert service.process is not None
        process = psutil.Process(service.process.pid)
        before = process.cpu_times()
        yield
        after = process.cpu_times()
        self.processor[kind] += after.user + after.system - before.user - before.system

    def load(self, kind: str, port: int, locations: list[str]) -> None:
        load = Load(
            port=port, kind=kind, seconds=self.seconds, connections=CONNECTIONS, locations=locations, first=self.stored
        )
        seen = drive(load)
        if seen.not_stored:
            raise RuntimeError(f"{seen.not_stored} of {seen.answers} notifications were not stored")
        self.stored += seen.answers if kind == FRESH else 0
        self.seen[kind].append(seen)
        print_line(
            f"notify on {self.database}: {NAMES[kind]}: {seen.rate:,.0f}/s, p99 {1000 * p99([seen]):.1f} ms, "
            f"load used {100 * seen.cpu / seen.seconds:.0f} % of a core"
        )

    def rates(self) -> Iterator[Figure]:
        for kind in KINDS:
            yield self.figure(f"{NAMES[kind]}", rate(self.seen[kind]), "/s")
            yield self.figure(f"{NAMES[kind]}, p99", 1000 * p99(self.seen[kind]), "ms")
            each = self.processor[kind] / sum(s.answers for s in self.seen[kind])
            yield self.figure(f"{NAMES[kind]}, processor time of the service", 1e6 * each, "µs")
        for kind in (FRESH, REPEATED):
            for empty in (BARE, ROUTED):
                share = 100 * rate(self.seen[kind]) / rate(self.seen[empty])
                slow = p99(self.seen[kind]) / p99(self.seen[empty])
                yield self.figure(f"{NAMES[kind]} / {NAMES[empty]}", share, "%", at_least=70)
                yield self.figure(f"{NAMES[kind]} / {NAMES[empty]}, p99", slow, at_most=5)

    def figure(self, name: str, value: float, unit: str = "", **goal: float) -> Figure:
        return Figure(bench=f"notify {self.database}", name=name, value=value, unit=unit, **goal)


def rate(seen: list[Seen]) -> float:
    return sum(s.answers for s in seen) / sum(s.seconds for s in seen)


def p99(seen: list[Seen]) -> float:
    """Over the answers of all rounds."""
    everything = sorted(latency for s in seen for latency in s.latencies)
    return everything[int(len(everything) * 0.99)]


def register(service: RunningService, folder: Path) -> list[str]:
    """Paused tables: what arrives for them is stored and stays, so that only the storing is measured."""
    locations = [f"{folder}/orders_{number:04d}" for number in range(TABLES)]
    with httpx.Client(base_url=service.url) as client:
        for location in locations:
            body = {"location": location, "format": "hudi", "action_types": ["compaction"]}
            table = client.post("/api/v1/tables", json=body).raise_for_status().json()["id"]
            client.patch(f"/api/v1/tables/{table}", json={"paused": True}).raise_for_status()
    return locations


@contextmanager
def database_of(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'lakehand.db'}"
        return
    with postgresql(is_durable=True) as server, server.fresh_database() as url:
        yield url


def run(folder: Path, *, quick: bool) -> list[Figure]:
    seconds, rounds = (1.0, 2) if quick else (5.0, 4)
    figures: list[Figure] = []
    for kind in ("sqlite", "postgresql"):
        reference = folder / kind
        reference.mkdir()
        with database_of(kind, reference) as url:
            figures += Notify(database=kind, seconds=seconds, rounds=rounds).run(reference, url)
    return figures
