# SPDX-License-Identifier: Apache-2.0
"""The steps of the demo: one table after the other is damaged, while Lakehand works on those before it.

Each is damaged by its writer, measured, left to Lakehand, written again, and measured again.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from datetime import datetime
from typing import Any, TypeVar

from lakehand.client import FINAL, ActionExplanation, LakehandClient
from lakehand.demo.console import NAME, DemoConsole, EventPrinter
from lakehand.demo.lake import Lake
from lakehand.demo.result import DemoSnapshot, TableOutcome, take_snapshot
from lakehand.demo.service import DemoFailed
from lakehand.demo.tables import DemoCommit, DemoTable
from lakehand.demo.writer import WriterProcess
from lakehand.domain.texts import span
from lakehand.spi import TableFormat

Condition = Callable[[], bool]
Send = Callable[..., dict[str, Any]]  # a command to the writer; returns its answer
WORK_TIMEOUT = 300.0  # seconds for Lakehand, while everything waits for it
POLL = 0.4  # seconds between two requests to the service
T = TypeVar("T")


def at_once() -> bool:
    return True


class TableRun:
    def __init__(self, table: DemoTable, *, lake: Lake, format: TableFormat, events: EventPrinter, send: Send) -> None:
        self.table = table
        self.reference = lake.reference(table.location, table.format, table.name)
        self.format = format
        self.events = events
        self.client = events.client
        self.console = events.console
        self.send = send
        self.id = 0  # as soon as it is registered
        self.outcome: TableOutcome | None = None  # in the end
        self.steps = self.run()
        self.can_go_on: Condition = at_once

    def run(self) -> Iterator[Condition]:
        """All steps in order. Between two of them it says what must be so before it goes on."""
        table = self.table
        self.console.heading(table.title, table.damage)
        for _ in self.write(table.history, "commit"):
            yield at_once
        before = self.take_snapshot("before")
        self.let_work()
        if table.only_writer:
            yield lambda: self.refusal() is not None
            self.say_who_writes()
        yield lambda: self.is_settled(table.first)
        if table.later:
            yield from self.write_later()
        yield lambda: self.is_settled(table.expected)
        self.print_evaluations()
        self.outcome = self.compare(before, self.take_snapshot("after"))

    def go_on(self) -> bool:
        """Take the next step. False: it was the last one."""
        condition = next(self.steps, None)
        self.can_go_on = condition or at_once
        return condition is not None

    def register(self) -> None:
        # Its writer may not have created it yet, so the format cannot be recognised.
        table = self.table
        known = self.client.tables.add(table.location, format=table.format, table_name=table.name, **table.registration)
        self.id = known.id
        self.events.names[known.id] = table.title

    def register_paused(self) -> None:
        self.register()
        self.client.tables.pause(self.id)

    def write(self, commits: Sequence[DemoCommit], title: str) -> Iterator[None]:
        """One commit per step."""
        for number, commit in enumerate(commits, 1):
            with self.console.waiting(f"{self.table.title}: {title} {number} of {len(commits)}"):
                done = self.command(do="write", commit=asdict(commit))
            self.line("writer", f"{title} {number} of {len(commits)}: {commit}, {span(done['seconds'])}")
            yield

    def write_later(self) -> Iterator[Condition]:
        """More commits while Lakehand works; where two commits at once are not safe, the two take turns."""
        if self.table.only_writer:
            self.client.tables.pause(self.id)
        for _ in self.write(self.table.later, "later commit"):
            yield at_once
        if self.table.only_writer:
            self.client.tables.resume(self.id)

    def take_snapshot(self, moment: str) -> DemoSnapshot:
        with self.console.waiting(f"{self.table.title}: reading, for the snapshot {moment}"):
            read = self.command(do="read")
        one = take_snapshot(self.format, self.reference, read)
        text = f"{one.rows} rows, a query opens {one.opened} files and takes {span(one.seconds)}"
        self.line("writer", f"{moment}: {text}")
        return one

    def let_work(self) -> None:
        """Resume the table if Lakehand was notified of it; register it if it is to be probed."""
        if self.table.notifies:
            self.line("demo", "Lakehand may begin: the writer has notified it of every commit")
            self.client.tables.resume(self.id)
        else:
            self.line("demo", "Lakehand may begin: nobody has notified it, so it probes the table")
            self.register()

    def say_who_writes(self) -> None:
        """Where commits can be lost, Lakehand refuses to commit until somebody says that nobody else writes."""
        table = self.table
        self.line("lakehand", self.refusal() or "")
        properties = {**table.registration.get("properties", {}), **table.only_writer}
        self.client.tables.change(self.id, properties=properties)
        said = " ".join(f"{key}={value}" for key, value in table.only_writer.items())
        self.line("demo", f"{said}: its writer waits while Lakehand works")

    def refusal(self) -> str | None:
        return next((one.now for one in self.explain() if "only-writer" in one.now), None)

    def is_settled(self, expected: frozenset[str]) -> bool:
        """Every expected action succeeded, the table was evaluated again, and nothing is left to do."""
        operations = [one for one in self.events.operations if one.table.id == self.id]
        if bad := [one for one in operations if one.status in FINAL - {"succeeded"}]:
            raise DemoFailed(f"operation {bad[0].id} of {self.table.name} is {bad[0].status}: {bad[0].reason}")
        done = {one.action for one in operations if one.status == "succeeded"}
        return expected <= done and is_quiet(self.explain(), self.notified_at())

    def print_evaluations(self) -> None:
        for one in self.explain():
            self.line("lakehand", f"{one.action}, evaluated again: {one.now}")

    def state(self) -> str:
        """Its title if it has an operation, and else what it waits for."""
        idle = [f"{one.action}: {one.now}" for one in self.explain() if not one.unfinished]
        is_busy = len(idle) < len(self.table.registration["action_types"])
        return self.table.title if is_busy else f"{self.table.title}, {', '.join(idle)}"

    def explain(self) -> list[ActionExplanation]:
        """The explanation of each action that the table is registered for."""
        return [one for one in self.client.tables.explain(self.id).actions if one.wanted]

    def notified_at(self) -> datetime | None:
        return self.client.tables.get(self.id).notified_at

    def compare(self, before: DemoSnapshot, after: DemoSnapshot) -> TableOutcome:
        table, operations = self.table, list(self.client.operations.list(table=self.id, limit=100))
        return TableOutcome(
            name=table.name, format=table.format, before=before, after=after,
            operations=[(one.action, one.status) for one in reversed(operations)],
            was_notified=self.notified_at() is not None, should_be_notified=table.notifies,
        )  # fmt: skip

    def command(self, **arguments: Any) -> dict[str, Any]:
        """Send the writer a command about the table."""
        table = self.table
        about = {"format": table.format, "location": table.location, "database": table.database}
        return self.send(**about, options=dict(table.options), **arguments)

    def line(self, who: str, text: str) -> None:
        self.console.line(who, f"{self.table.title:<{NAME}} {text}")


def is_quiet(actions: Sequence[ActionExplanation], notified: datetime | None) -> bool:
    return all(not one.unfinished and is_evaluated(one, notified) for one in actions)


def is_evaluated(action: ActionExplanation, notified: datetime | None) -> bool:
    """Since the last notification, and since its last operation ended."""
    ended = action.last_finished.finished_at if action.last_finished else None
    evaluated, moments = action.evaluated_at, [notified, ended]
    return evaluated is not None and all(moment is None or evaluated >= moment for moment in moments)


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
