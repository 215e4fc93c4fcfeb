# SPDX-License-Identifier: Apache-2.0
"""The steps of the demo: write, measure, let Lakehand work, write more, measure again."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from datetime import datetime
from typing import Any, TypeVar

from lakehand.client import FINAL, ActionExplanation, LakehandClient, Operation
from lakehand.demo.console import NAME, DemoConsole, EventPrinter
from lakehand.demo.lake import Lake
from lakehand.demo.result import DemoSnapshot, TableOutcome, names, take_snapshot
from lakehand.demo.service import DemoFailed
from lakehand.demo.tables import DemoCommit, DemoTable
from lakehand.demo.writer import WriterProcess
from lakehand.output import span
from lakehand.spi import TableFormat, TableReference

WORK_TIMEOUT = 300.0  # seconds for Lakehand to finish its work
POLL = 0.4  # seconds between two requests to the service
T = TypeVar("T")


class Scenario:
    def __init__(
        self, *, client: LakehandClient, writer: WriterProcess, tables: Sequence[DemoTable],
        formats: Mapping[str, TableFormat], lake: Lake, console: DemoConsole,
    ) -> None:  # fmt: skip
        self.client = client
        self.writer = writer
        self.tables = tables
        self.notified_tables = [table for table in tables if table.notifies]
        self.silent_tables = [table for table in tables if not table.notifies]
        self.formats = formats
        self.lake = lake
        self.console = console
        self.ids: dict[str, int] = {}
        self.titles: dict[int, str] = {}
        self.events = EventPrinter(client, console, self.titles)
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="writer")

    def register_notified(self) -> None:
        """Tables whose writers notify Lakehand; paused, so that the first snapshots show them untouched."""
        for table in self.notified_tables:
            self.register(table)
            self.client.tables.pause(self.ids[table.name])
        if self.notified_tables:
            text = f"{len(self.notified_tables)} tables are registered, because their writers notify Lakehand"
            self.console.line("demo", f"{text}; they are paused until the first snapshots")

    def register(self, table: DemoTable) -> None:
        # Its writer may not have created it yet, so the format cannot be recognised.
        known = self.client.tables.add(table.location, format=table.format, table_name=table.name, **table.registration)
        self.ids[table.name] = known.id
        self.titles[known.id] = table.title

    def damage(self) -> None:
        for table in self.tables:
            self.console.heading(table.title, table.damage)
            self.write(table, table.history, "commit")
        self.console.show("")

    def write(self, table: DemoTable, commits: Sequence[DemoCommit], title: str) -> None:
        for number, commit in enumerate(commits, 1):
            with self.console.waiting(f"{table.title}: {title} {number} of {len(commits)}"):
                done = self.command(table, do="write", commit=asdict(commit))
            text = f"{title} {number} of {len(commits)}: {commit}, {span(done['seconds'])}"
            self.console.line("writer", f"{table.title:<{NAME}} {text}")

    def snapshots(self, moment: str) -> dict[str, DemoSnapshot]:
        taken = {}
        for table in self.tables:
            with self.console.waiting(f"{table.title}: reading, for the snapshot {moment}"):
                read = self.command(table, do="read")
            taken[table.name] = one = take_snapshot(self.formats[table.format], self.reference(table), read)
            text = f"{one.rows} rows, a query opens {one.opened} files and takes {span(one.seconds)}"
            self.console.line("writer", f"{table.title:<{NAME}} {moment}: {text}")
        return taken

    def let_work(self) -> None:
        """Resume the tables that it was notified of, and register the others, which it probes."""
        notified, silent = names(self.notified_tables), names(self.silent_tables)
        how = [
            f"it was notified of {notified}" if notified else "",
            f"nobody notified it of {silent}: it probes them" if silent else "",
        ]
        self.console.heading("Now Lakehand works", "; ".join(part for part in how if part))
        for table in self.notified_tables:
            self.client.tables.resume(self.ids[table.name])
        for table in self.silent_tables:
            self.register(table)
        for table in self.tables:
            if table.only_writer:
                self.say_who_writes(table)

    def say_who_writes(self, table: DemoTable) -> None:
        """Where commits can be lost, Lakehand refuses to commit until somebody says that nobody else writes."""
        with self.console.waiting(f"{table.title}: waiting for a decision"):
            reason = self.poll_until(lambda: self.refusal(table), f"{table.name} was not refused")
        self.console.line("lakehand", f"{table.title:<{NAME}} {reason}")
        properties = {**table.registration.get("properties", {}), **table.only_writer}
        self.client.tables.change(self.ids[table.name], properties=properties)
        said = " ".join(f"{key}={value}" for key, value in table.only_writer.items())
        self.console.line("demo", f"{table.title:<{NAME}} {said}: its writer waits while Lakehand works")

    def refusal(self, table: DemoTable) -> str | None:
        return next((one.now for one in self.explain(table) if "only-writer" in one.now), None)

    def write_later(self, table: DemoTable) -> None:
        """More commits while Lakehand works; where two commits at once are not safe, the two take turns."""
        if not table.later:
            return
        if table.only_writer:
            self.client.tables.pause(self.ids[table.name])
        self.write(table, table.later, "later commit")
        if table.only_writer:
            self.client.tables.resume(self.ids[table.name])

    def print_evaluations(self) -> None:
        for table in self.tables:
            for one in self.explain(table):
                self.console.line("lakehand", f"{table.title:<{NAME}} {one.action}, evaluated again: {one.now}")

    def wait_until_settled(self, wanted: Callable[[DemoTable], frozenset[str]]) -> None:
        deadline = time.monotonic() + WORK_TIMEOUT
        with self.console.waiting("waiting for Lakehand"):
            while left := [table for table in self.tables if not self.is_settled(table, wanted(table))]:
                if time.monotonic() > deadline:
                    raise DemoFailed(f"after {WORK_TIMEOUT:.0f} s there is still work: {self.state_of(left)}")
                self.events.poll()
                self.console.keep_alive(f"still working: {self.state_of(left)}")
                time.sleep(POLL)
            self.events.poll()

    def is_settled(self, table: DemoTable, expected: frozenset[str]) -> bool:
        """Every expected action succeeded, the table was evaluated again, and nothing is left to do."""
        operations = self.operations(table)
        if bad := [one for one in operations if one.status in FINAL - {"succeeded"}]:
            raise DemoFailed(f"operation {bad[0].id} of {table.name} is {bad[0].status}: {bad[0].reason}")
        done = {one.action for one in operations if one.status == "succeeded"}
        return expected <= done and is_quiet(self.explain(table), self.notified_at(table))

    def poll_until(self, found: "Callable[[], T | None]", problem: str) -> T:
        deadline = time.monotonic() + WORK_TIMEOUT
        while (value := found()) is None:
            if time.monotonic() > deadline:
                raise DemoFailed(f"after {WORK_TIMEOUT:.0f} s {problem}")
            self.events.poll()
            time.sleep(POLL)
        return value

    def state_of(self, tables: Sequence[DemoTable]) -> str:
        """The names of tables with an operation, and what the others wait for."""
        states = []
        for table in tables:
            idle = [f"{one.action}: {one.now}" for one in self.explain(table) if not one.unfinished]
            is_busy = len(idle) < len(table.registration["action_types"])
            states.append(table.title if is_busy else f"{table.title}, {', '.join(idle)}")
        return "; ".join(states)

    def explain(self, table: DemoTable) -> list[ActionExplanation]:
        """The explanation of each action that the table is registered for."""
        return [one for one in self.client.tables.explain(self.ids[table.name]).actions if one.wanted]

    def operations(self, table: DemoTable) -> list[Operation]:
        return list(self.client.operations.list(table=self.ids[table.name], limit=100))

    def notified_at(self, table: DemoTable) -> datetime | None:
        return self.client.tables.get(self.ids[table.name]).notified_at

    def outcomes(self, before: Mapping[str, DemoSnapshot], after: Mapping[str, DemoSnapshot]) -> list[TableOutcome]:
        return [
            TableOutcome(
                name=table.name, format=table.format, before=before[table.name], after=after[table.name],
                operations=[(one.action, one.status) for one in reversed(self.operations(table))],
                was_notified=self.notified_at(table) is not None, should_be_notified=table.notifies,
            )
            for table in self.tables
        ]  # fmt: skip

    def command(self, table: DemoTable, **arguments: Any) -> dict[str, Any]:
        """Send the writer a command, and print events of the service until it answers."""
        about = {"format": table.format, "location": table.location, "database": table.database}
        options = dict(table.options)
        return self.wait_for(self.pool.submit(self.writer.send, **about, options=options, **arguments))

    def reference(self, table: DemoTable) -> TableReference:
        return self.lake.reference(table.location, table.format, table.name)

    def wait_for(self, future: "Future[T]") -> T:
        while not wait([future], timeout=POLL).done:
            self.events.poll()
        self.events.poll()
        return future.result()


def is_quiet(actions: Sequence[ActionExplanation], notified: datetime | None) -> bool:
    return all(not one.unfinished and is_evaluated(one, notified) for one in actions)


def is_evaluated(action: ActionExplanation, notified: datetime | None) -> bool:
    """Since the last notification, and since its last operation ended."""
    ended = action.last_finished.finished_at if action.last_finished else None
    evaluated, moments = action.last_look, [notified, ended]
    return evaluated is not None and all(moment is None or evaluated >= moment for moment in moments)
