# SPDX-License-Identifier: Apache-2.0
"""Whether every change is acted on while the service is killed, and nothing but events can find the changes."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import httpx
import psutil
from sqlalchemy import select

from bench.event_stream import Stream
from bench.idle import register
from bench.idle_tables import make_tables
from bench.notify import CONNECTIONS
from bench.report import Figure, print_line
from bench.service import serving
from lakehand.domain.tables import TableReference
from lakehand.formats.hudi.factory import ACTIONS, HudiProcessFactory
from lakehand.formats.hudi.table import HUDI, HudiFormat
from lakehand.store import open_store
from lakehand.store.database import Database
from lakehand.store.schema import operation, tbl
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

TIMEOUT = 1200.0
NO_ENGINE = '{"engines": {"spark": {"enabled": false}}}'  # operations are stored, and nothing runs them
Plan = tuple[str, str]  # location of its table, and instant
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
    planned: int = 100  # tables with changes that need an operation
    seconds: float = 3.0  # of each round of the rates
    rounds: int = 2


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
        with serving(folder / "home", lake, database=url, heartbeat_timeout="24h", plugins=NO_ENGINE) as service:
            wait_for(lambda: not missing(url, paths), "the first look at every table", TIMEOUT)
            watch = threading.Thread(target=self.sample, args=(service,), daemon=True)
            watch.start()
            began = time.perf_counter()
            counts = self.send(service, paths)
            sent = time.perf_counter() - began
            with suppress(AssertionError):  # what is missing is a figure
                wait_for(lambda: is_settled(url, paths), "every last change to be acted on", TIMEOUT, pace=0.5)
            took, missed = time.perf_counter() - began, missing(url, paths)
            self.ending.set()
            watch.join()
            burst = self.burst(service, folder)
        return [
            *self.figures(counts, sent, took),
            *missed_and_made(missed, plans_of(paths), operations_of(url)),
            *burst,
        ]

    def send(self, service: RunningService, paths: Sequence[Path]) -> dict[str, int]:
        """Returns the sender's counts. Kills the service when shares of the events were answered."""
        s = self.sizes
        stream = Stream(
            home=str(service.home), tables=list(map(str, paths)), events=s.events, batch=s.batch,
            connections=CONNECTIONS, doubled=s.doubled, late=s.late, swapped=s.swapped, planned=s.planned,
        )  # fmt: skip
        command = [sys.executable, "-m", "bench.event_stream"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
            assert sender.stdin is not None
            assert sender.stdout is not None
            sender.stdin.write(json.dumps(asdict(stream)).encode())
            sender.stdin.close()
            last = self.watch(service, sender.stdout)
        if sender.returncode != 0:
            raise RuntimeError(f"the sender failed: {last!r}")
        counts: dict[str, int] = json.loads(last)
        return counts

    def watch(self, service: RunningService, lines: IO[bytes]) -> bytes:
        """The sender's last line; on the way, kill the service when its share of the events was answered."""
        s, last = self.sizes, b""
        due = [s.events * (n + 1) // (s.kills + 1) for n in range(s.kills)]
        for line in lines:
            last = line
            if due and line.strip().isdigit() and int(line) >= due[0]:
                print_line(f"commits: kill -9 after {due.pop(0):,} of {s.events:,} events")
                service.kill()
                service.start()
        return last

    def sample(self, service: RunningService) -> None:
        while not self.ending.wait(SAMPLE):
            try:
                assert service.process is not None
                self.memory = max(self.memory, psutil.Process(service.process.pid).memory_info().rss)
            except psutil.Error:
                continue  # it was killed just now

    def burst(self, service: RunningService, folder: Path) -> list[Figure]:
        """Events for tables that nobody knows."""
        url = service.url + "/api/v1/commits"
        before, count = len(service.get("/api/v1/events", limit=1000)["items"]), 20
        with httpx.Client() as client:
            for number in range(count):
                events = [
                    {
                        "specversion": "1.0", "type": "dev.lakehand.table.committed", "source": "burst",
                        "id": f"{number}-{n}", "data": {"location": f"{folder}/lake/unknown/{number}-{n}"},
                    }
                    for n in range(1000)
                ]  # fmt: skip
                counts = client.post(url, json=events, timeout=60).raise_for_status().json()
                if counts["refused"] != len(events):
                    raise RuntimeError(f"a burst was not refused: {counts}")
        rows = len(service.get("/api/v1/events", limit=1000)["items"]) - before
        return [figure(f"rows that {count * 1000:,} events for unknown tables left", rows, at_most=1)]

    def figures(self, counts: dict[str, int], sent: float, took: float) -> list[Figure]:
        s = self.sizes
        return [
            figure(f"events answered, {s.tables:,} tables, {s.kills} kills", counts["answered"], at_least=s.events),
            figure("events sent again", counts["again"]),
            figure("events refused", counts["refused"], at_most=0),
            figure("events per second, kills and evaluations included", counts["answered"] / sent, "/s"),
            figure("until every last change was acted on, after the last event", took - sent, "s"),
            figure("memory (RSS), most", self.memory / 1e6, "MB", at_most=300),
        ]


def missed_and_made(missed: int, plans: Sequence[Plan], operations: Sequence[Plan]) -> list[Figure]:
    return [
        figure("tables whose last change was missed", missed, at_most=0),
        figure("changes that needed an operation", len(plans)),
        figure("of these without one", len(set(plans) - set(operations)), at_most=0),
        figure("operations that nothing needed, or doubled", len(operations) - len(set(plans)), at_most=0),
    ]


def is_settled(url: str, paths: Sequence[Path]) -> bool:
    return not missing(url, paths) and set(plans_of(paths)) <= set(operations_of(url))


def plans_of(paths: Sequence[Path]) -> list[Plan]:
    """The plans in the tables: each needs one operation."""
    timelines = [path / ".hoodie" / "timeline" for path in paths]
    return [
        (str(timeline.parents[1]), file.name.partition(".")[0])
        for timeline in timelines
        for file in timeline.glob("*.compaction.requested")
    ]


def operations_of(url: str) -> list[Plan]:
    """All that were ever stored: nothing runs, and nothing is removed."""
    database = Database(url)
    query = select(tbl.c.base_path, operation.c.instant).join(tbl, tbl.c.id == operation.c.tbl_id)
    found = [(row.base_path, row.instant) for row in database.read(lambda tx: tx.execute(query).all())]
    database.close()
    return found


def missing(url: str, paths: Sequence[Path]) -> int:
    """Tables with schedules that follow changes and have not seen the newest one."""
    store, hudi, factory = open_store(url), HudiFormat(), HudiProcessFactory()
    follows = {action for action in ACTIONS if factory.trigger_strategy(HUDI, action).on_new_snapshot}
    tables = store.tables.by_locations([str(path) for path in paths])
    seen = {
        name: {schedule.seen_token for schedule in store.schedules.of_table(table.id) if schedule.action in follows}
        for name, table in tables.items()
    }
    store.close()
    return sum(seen[str(path)] != {hudi.probe(TableReference(location=str(path)))} for path in paths)


def figure(name: str, value: float, unit: str = "", **goal: float) -> Figure:
    return Figure(bench="commits", name=name, value=value, unit=unit, **goal)
