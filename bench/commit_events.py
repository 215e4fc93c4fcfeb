# SPDX-License-Identifier: Apache-2.0
"""Commit events: how many per second beside the Hudi wire, and whether every change is acted on while it is killed."""

import json
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import psutil

from bench.event_stream import Stream
from bench.idle import register
from bench.idle_tables import make_tables
from bench.load import EVENTS, FRESH, REPEATED, Load, Seen, drive
from bench.notify import CONNECTIONS, p99, rate
from bench.notify import register as register_paused
from bench.report import Figure, print_line
from bench.service import port_of, serving
from lakehand.domain.references import TableReference
from lakehand.formats.hudi.table import HudiFormat
from lakehand.store import open_store
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

BATCH = 100
KINDS = ((FRESH, 1), (EVENTS, 1), (EVENTS, BATCH), (REPEATED, 1))
NAMES = {
    (FRESH, 1): "wire, new plans",
    (REPEATED, 1): "wire, repeats",
    (EVENTS, 1): "events, one per request",
    (EVENTS, BATCH): f"events, {BATCH} per request",
}
TIMEOUT = 1200.0
SAMPLE = 0.2  # seconds between two looks at the memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    events: int = 20_000
    tables: int = 200
    batch: int = 20
    doubled: float = 0.25
    late: float = 0.125
    swapped: float = 0.125
    kills: int = 2
    seconds: float = 3.0  # of each round of the rates
    rounds: int = 2


def add_options(parser: ArgumentParser) -> None:
    options = parser.add_argument_group("commits")
    for name, default in asdict(Sizes()).items():
        options.add_argument(f"--{name}", type=type(default), default=None, help=f"default: {default}")


def sizes_of(wanted: Namespace, *, quick: bool) -> Sizes:
    given = {name: value for name in asdict(Sizes()) if (value := getattr(wanted, name, None)) is not None}
    small = {"events": 2000, "tables": 20, "seconds": 1.0, "rounds": 1} if quick else {}
    return Sizes(**{**small, **given})


def run(folder: Path, *, quick: bool, wanted: Namespace | None = None) -> list[Figure]:
    sizes = sizes_of(wanted or Namespace(), quick=quick)
    rates, delivery = folder / "rates", folder / "delivery"
    rates.mkdir()
    delivery.mkdir()
    return [*Rates(sizes=sizes).run(rates), *Delivery(sizes=sizes).run(delivery)]


@dataclass(kw_only=True)
class Rates:
    """Only the storing is measured: the tables are paused."""

    sizes: Sizes
    first: int = 0
    seen: dict[tuple[str, int], list[Seen]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def run(self, folder: Path) -> Iterator[Figure]:
        lake = folder / "lake"
        lake.mkdir()
        with serving(folder / "home", lake, database=f"sqlite:///{folder / 'lakehand.db'}") as service:
            locations = register_paused(service, lake)
            for number in range(self.sizes.rounds):
                for kind in KINDS if number % 2 == 0 else reversed(KINDS):
                    self.load(kind, port_of(service), locations)
        yield from self.figures()

    def load(self, kind: tuple[str, int], port: int, locations: list[str]) -> None:
        load = Load(
            port=port, kind=kind[0], seconds=self.sizes.seconds, connections=CONNECTIONS, locations=locations,
            first=self.first, batch=kind[1],
        )  # fmt: skip
        seen = drive(load)
        if seen.not_stored:
            raise RuntimeError(f"{seen.not_stored} of {seen.answers} requests were not stored")
        self.first += seen.answers * kind[1]
        self.seen[kind].append(seen)
        print_line(f"commits: {NAMES[kind]}: {seen.rate * kind[1]:,.0f}/s, p99 {1000 * p99([seen]):.1f} ms")

    def figures(self) -> Iterator[Figure]:
        wire = rate(self.seen[FRESH, 1])
        for kind, seen in self.seen.items():
            yield figure(NAMES[kind], rate(seen) * kind[1], "/s")
            yield figure(f"{NAMES[kind]}, p99", 1000 * p99(seen), "ms")
            if kind[0] == EVENTS:
                yield figure(f"{NAMES[kind]} / wire, new plans", 100 * rate(seen) * kind[1] / wire, "%", at_least=100)


@dataclass(kw_only=True)
class Delivery:
    """Tables change and their events are sent while the service is killed; nothing else can find the changes."""

    sizes: Sizes
    memory: int = 0
    ending: threading.Event = field(default_factory=threading.Event)

    def run(self, folder: Path) -> list[Figure]:
        url, lake = f"sqlite:///{folder / 'lakehand.db'}", folder / "lake"
        paths = make_tables(lake, self.sizes.tables)
        register(url, paths)
        with serving(folder / "home", lake, database=url, heartbeat_timeout="24h") as service:
            wait_for(lambda: not missing(url, paths), "the first look at every table", TIMEOUT)
            watch = threading.Thread(target=self.sample, args=(service,), daemon=True)
            watch.start()
            began = time.perf_counter()
            told = self.send(service, paths)
            sent = time.perf_counter() - began
            wait_for(lambda: not missing(url, paths), "every last change to be acted on", TIMEOUT, pace=0.5)
            took = time.perf_counter() - began
            self.ending.set()
            watch.join()
            flood = self.flood(service, folder)
            operations = len(service.operations())
        return [*self.figures(told, sent, took, operations), *flood]

    def send(self, service: RunningService, paths: Sequence[Path]) -> dict[str, int]:
        """Returns the sender's counts. Kills the service when shares of the events were answered."""
        s = self.sizes
        stream = Stream(
            home=str(service.home), tables=list(map(str, paths)), events=s.events, batch=s.batch,
            connections=CONNECTIONS, doubled=s.doubled, late=s.late, swapped=s.swapped,
        )  # fmt: skip
        command = [sys.executable, "-m", "bench.event_stream"]
        sender = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert sender.stdin is not None
        assert sender.stdout is not None
        sender.stdin.write(json.dumps(asdict(stream)).encode())
        sender.stdin.close()
        due = [s.events * (n + 1) // (s.kills + 1) for n in range(s.kills)]
        last = b""
        for line in sender.stdout:
            last = line
            if due and line.strip().isdigit() and int(line) >= due[0]:
                print_line(f"commits: kill -9 after {due.pop(0):,} of {s.events:,} events")
                service.kill()
                service.start()
        if sender.wait() != 0:
            raise RuntimeError(f"the sender failed: {last!r}")
        told: dict[str, int] = json.loads(last)
        return told

    def sample(self, service: RunningService) -> None:
        while not self.ending.wait(SAMPLE):
            try:
                assert service.process is not None
                self.memory = max(self.memory, psutil.Process(service.process.pid).memory_info().rss)
            except psutil.Error:
                continue  # it was killed just now

    def flood(self, service: RunningService, folder: Path) -> list[Figure]:
        """Events for tables that nobody knows."""
        url = service.url + "/api/v1/commits"
        before, count = len(service.get("/api/v1/events", limit=1000)["items"]), 20
        with httpx.Client() as client:
            for number in range(count):
                events = [
                    {
                        "specversion": "1.0", "type": "dev.lakehand.table.committed", "source": "flood",
                        "id": f"{number}-{n}", "data": {"location": f"{folder}/lake/unknown/{number}-{n}"},
                    }
                    for n in range(1000)
                ]  # fmt: skip
                counts = client.post(url, json=events, timeout=60).raise_for_status().json()
                if counts["refused"] != len(events):
                    raise RuntimeError(f"a flood was not refused: {counts}")
        rows = len(service.get("/api/v1/events", limit=1000)["items"]) - before
        return [figure(f"rows that {count * 1000:,} events for unknown tables left", rows, at_most=1)]

    def figures(self, told: dict[str, int], sent: float, took: float, operations: int) -> list[Figure]:
        s = self.sizes
        return [
            figure(f"events answered, {s.tables:,} tables, {s.kills} kills", told["answered"], at_least=s.events),
            figure("events sent again", told["again"]),
            figure("events refused", told["refused"], at_most=0),
            figure("events per second, kills and evaluations included", told["answered"] / sent, "/s"),
            figure("until every last change was acted on, after the last event", took - sent, "s"),
            figure("tables whose last change was missed", 0, at_most=0),
            figure("operations, where nothing is to do", operations, at_most=0),
            figure("memory (RSS), most", self.memory / 1e6, "MB", at_most=300),
        ]


def missing(url: str, paths: Sequence[Path]) -> int:
    """Tables whose schedules have not seen the newest change."""
    store, hudi = open_store(url), HudiFormat()
    tables = store.tables.by_locations([str(path) for path in paths])
    seen = {
        name: {schedule.seen_token for schedule in store.schedules.of_table(table.id)} for name, table in tables.items()
    }
    store.close()
    return sum(seen[str(path)] != {hudi.probe(TableReference(location=str(path)))} for path in paths)


def figure(name: str, value: float, unit: str = "", **goal: float) -> Figure:
    return Figure(bench="commits", name=name, value=value, unit=unit, **goal)
