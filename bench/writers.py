# SPDX-License-Identifier: Apache-2.0
"""Writers beside service clustering and clean, while the driver is killed: how many of their statements fail."""

import time
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread

from bench.report import Figure
from bench.service import serving
from lakehand.writer import file_lock
from tests.e2e import clusterings
from tests.e2e.writers import KINDS, LOGGING, METADATA, Writer, facts, live_writer, lock_folders
from tests.hudi_tables import start_session
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

ROUNDS, KILLS, PAUSE = 30, 3, 3.0  # seconds between two statements: the pace of the load, nothing waits for it
PROPERTIES = {
    "hudi.clustering.commits": "2",
    "hudi.clustering.order-columns": "ts",
    "hudi.clean.commits": "4",
    "hudi.clean.retain-commits": "4",
}
SETTINGS = {"lease": "15", "lease_margin": "3"}


def run(folder: Path, *, quick: bool, kinds: tuple[str, ...] = (*KINDS, LOGGING, METADATA)) -> list[Figure]:
    figures: list[Figure] = []
    session = start_session("hudi")
    for kind in kinds:
        with ExitStack() as stack:
            lake = folder / kind
            lake.mkdir()
            service = stack.enter_context(
                serving(folder / f"home-{kind}", lake, **SETTINGS, **lock_folders(lake / "locks"))
            )
            writer = stack.enter_context(live_writer(kind, session, lake / "orders", service.url, lake / "locks"))
            course = Course(service, writer, rounds=6 if quick else ROUNDS, kills=1 if quick else KILLS)
            course.run(lake / "locks")
            figures += course.figures(kind, is_right=facts(session, writer) == writer.expected(course.rounds))
    session.stop()
    return figures


class Course:
    """One writer's rounds, and a killer beside it."""

    def __init__(self, service: RunningService, writer: Writer, *, rounds: int, kills: int) -> None:
        self.service = service
        self.writer = writer
        self.rounds = rounds
        self.wanted_kills = kills
        self.kills = 0
        self.failed: list[str] = []
        self.seconds: list[float] = []
        self.during = 0
        self._over = Event()

    def run(self, lock: Path) -> None:
        self.write(1)
        clusterings.register(self.service, self.writer.path, {**PROPERTIES, **file_lock(str(lock))})
        killer = Thread(target=self.kill, daemon=True)
        killer.start()
        for number in range(2, self.rounds + 1):
            self.write(number)
            time.sleep(PAUSE)
        self._over.set()
        killer.join()
        self.during = len(clusterings.done(self.writer.path))
        wait_for(lambda: clusterings.done(self.writer.path), "a clustering, now that the writer has stopped")

    def write(self, number: int) -> None:
        began = time.monotonic()
        reason = self.writer.write(number)
        self.seconds.append(time.monotonic() - began)
        if reason:
            self.failed.append(f"round {number}: {reason}")

    def kill(self) -> None:
        """Only clusterings that were not completed count."""
        while self.kills < self.wanted_kills and not self._over.is_set():
            instant = clusterings.in_the_middle(self.writer.path)
            if instant is None:
                self._over.wait(0.01)
                continue
            self.service.kill_driver()
            self.kills += clusterings.is_pending(self.writer.path, instant)

    def figures(self, kind: str, *, is_right: bool) -> list[Figure]:
        for reason in self.failed:
            print(f"{kind}: {reason[:500]}")
        done = len(clusterings.done(self.writer.path))
        longest = max(self.seconds)
        ended: dict[str, int] = {}
        for operation in self.service.operations(location=str(self.writer.path)):
            word = f"{operation['action']} {operation['status']}"
            ended[word] = ended.get(word, 0) + 1
        named: list[tuple[str, float, str, float | None, float | None]] = [
            ("statements", self.rounds, "", None, None),
            ("failed statements", len(self.failed), "", 0, None),
            ("every row right", float(is_right), "", None, 1),
            ("driver killed in the middle of a clustering", self.kills, "times", None, self.wanted_kills),
            ("clusterings completed while writing", self.during, "", None, None),
            ("clusterings completed", done, "", None, 1),
            ("longest statement", longest, "s", None, None),
            *((f"operations: {word}", count, "", None, None) for word, count in sorted(ended.items())),
        ]
        return [
            Figure(bench="writers", name=f"{kind}: {name}", value=value, unit=unit, at_most=most, at_least=least)
            for name, value, unit, most, least in named
        ]
