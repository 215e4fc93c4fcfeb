# SPDX-License-Identifier: Apache-2.0
"""The output of the demo: one line per event with its time, and on a terminal what the demo waits for."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.status import Status

from lakehand.client import Event, LakehandClient, Operation
from lakehand.output import SafeConsole, data, join

WIDTH = 140  # without a terminal
NAME = 16  # columns of a table's title
QUIET = 10.0  # seconds without a line, after which one says that the demo still works
HIDDEN = ("operation.waits", "table.changed")  # events that are not printed
COLOURS = {"demo": "bold", "writer": "blue", "lakehand": "green"}


class DemoConsole:
    def __init__(self, console: Console | None = None) -> None:
        self.console = console or SafeConsole(soft_wrap=True)
        if not self.console.is_terminal:
            self.console.width = WIDTH
        self.started = time.monotonic()
        self.last_line = self.started
        self.status: Status | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def line(self, who: str, text: str) -> None:
        self.last_line = time.monotonic()
        at, name = data(f"{self.seconds:6.1f} s", "dim"), data(f"{who:<9}", COLOURS.get(who, "bold"))
        self.console.print(join(at, "  ", name, f" {text}"))

    def keep_alive(self, text: Callable[[], str]) -> None:
        """Print a line if there was none for a while."""
        if time.monotonic() - self.last_line > QUIET:
            self.line("demo", text())

    def heading(self, title: str, text: str) -> None:
        self.console.print()
        self.console.print(join(data(title, "bold"), f": {text}."))

    def show(self, what: RenderableType) -> None:
        self.console.print(what)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show what the demo waits for below the lines."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(data(text)) as self.status:
            yield

    def progress(self, text: str) -> None:
        if self.status is not None:
            self.status.update(data(text))


class EventPrinter:
    """Prints new events of the service and new phases of running operations."""

    def __init__(self, client: LakehandClient, console: DemoConsole) -> None:
        self.client = client
        self.console = console
        self.names: dict[int, str] = {}  # of tables whose events are printed, by id
        self.last_event = 0
        self.phases: dict[int, str] = {}
        self.operations: list[Operation] = []  # as of the last call, newest first

    def poll(self) -> None:
        """Print what is new since the last call."""
        for event in sorted(self.client.events.list(limit=100), key=lambda one: one.id):
            if event.id > self.last_event:
                self.last_event = event.id
                self.print_event(event)
        self.print_progress()

    def print_event(self, event: Event) -> None:
        if event.kind not in HIDDEN and event.table is not None and event.table in self.names:
            word = event.kind.partition(".")[2]
            number = f" {event.operation}" if event.operation else ""
            self.console.line("lakehand", f"{self.names[event.table]:<{NAME}} {word}{number}: {event.message}")

    def print_progress(self) -> None:
        self.operations = list(self.client.operations.list(limit=50))
        for operation in self.operations:
            progress = operation.progress
            phase = str(progress.get("phase") or "")
            if operation.is_final or not phase:
                continue
            name = self.names.get(operation.table.id, "")
            tasks = f", {progress.get('tasks_done', 0)} of {progress.get('tasks_total')} tasks"
            self.console.progress(f"{name}: {operation.action}, {phase}{tasks if progress.get('tasks_total') else ''}")
            if self.phases.get(operation.id) != phase:
                self.phases[operation.id] = phase
                self.console.line("lakehand", f"{name:<{NAME}} {operation.action} {operation.id}: {phase}")
