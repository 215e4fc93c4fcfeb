# SPDX-License-Identifier: Apache-2.0
"""The steps of the demo: one table after the other is damaged, while Lakehand works on those before it."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from lakehand.client import LakehandClient
from lakehand.demo.console import DemoConsole, EventPrinter
from lakehand.demo.lake import Lake
from lakehand.demo.result import TableOutcome
from lakehand.demo.service import DemoFailed
from lakehand.demo.table_run import TableRun
from lakehand.demo.tables import DemoTable
from lakehand.demo.writer import WriterProcess
from lakehand.spi import TableFormat

WORK_TIMEOUT = 300.0  # seconds for Lakehand, while everything waits for it
POLL = 0.4  # seconds between two requests to the service
T = TypeVar("T")


class Scenario:
    """There is one writer, which takes one command at a time; Lakehand works meanwhile."""

    def __init__(
        self, *, client: LakehandClient, writer: WriterProcess, tables: Sequence[DemoTable],
        formats: Mapping[str, TableFormat], lake: Lake, console: DemoConsole,
    ) -> None:  # fmt: skip
        self.writer = writer
        self.console = console
        self.events = EventPrinter(client, console)
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self.runs = [
            TableRun(table, lake=lake, format=formats[table.format], events=self.events, send=self.send)
            for table in tables
        ]

    def register_notified(self) -> None:
        """Tables whose writers notify Lakehand; paused, so that the first snapshots show them untouched."""
        notified = [run for run in self.runs if run.table.notifies]
        for run in notified:
            run.register_paused()
        if notified:
            text = f"{len(notified)} tables are registered, because their writers notify Lakehand"
            self.console.line("demo", f"{text}; they are paused until their first snapshots")

    def play(self) -> list[TableOutcome]:
        """Returns the outcome of each table."""
        coming, started = [*self.runs], list[TableRun]()
        while coming or started:
            if (run := next_run(started, coming)) is None:
                self.wait_for_lakehand(started)
            elif not run.go_on():
                started.remove(run)
                self.print_outcome(run)
        return self.outcomes

    def wait_for_lakehand(self, waiting: Sequence[TableRun]) -> None:
        deadline = time.monotonic() + WORK_TIMEOUT
        with self.console.waiting("waiting for Lakehand"):
            while not any(run.can_go_on() for run in waiting):
                if time.monotonic() > deadline:
                    raise DemoFailed(f"after {WORK_TIMEOUT:.0f} s there is still work: {states(waiting)}")
                time.sleep(POLL)
                self.events.poll()
                self.console.keep_alive(lambda: f"still working: {states(waiting)}")

    def print_outcome(self, run: TableRun) -> None:
        assert run.outcome is not None
        word = "is fixed" if run.outcome.is_fixed else "is NOT FIXED"
        run.line("demo", f"{word}: {len(self.outcomes)} of {len(self.runs)} tables are done")

    @property
    def outcomes(self) -> list[TableOutcome]:
        return [run.outcome for run in self.runs if run.outcome]

    def send(self, **command: Any) -> dict[str, Any]:
        """Send the writer a command, and print events of the service until it answers."""
        return self.wait_for(self.pool.submit(self.writer.send, **command))

    def wait_for(self, future: "Future[T]") -> T:
        while not wait([future], timeout=POLL).done:
            self.events.poll()
        self.events.poll()
        return future.result()


def next_run(started: list[TableRun], coming: list[TableRun]) -> TableRun | None:
    """The first that can go on: a table that waited for Lakehand, before one that is being damaged. Else a new one."""
    if ready := next((run for run in started if run.can_go_on()), None):
        return ready
    if coming:
        started.append(coming.pop(0))
        return started[-1]
    return None


def states(runs: Sequence[TableRun]) -> str:
    return "; ".join(run.state() for run in runs)
