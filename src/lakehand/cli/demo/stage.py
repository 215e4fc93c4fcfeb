# SPDX-License-Identifier: Apache-2.0
"""Where the demo speaks: one line per thing that happens, with its time; on a terminal also what is waited for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.status import Status

from lakehand.cli.screen import Screen, data, joined

WIDTH = 140  # where nobody says how wide it is
NAME = 16  # as wide as the title of a table
SILENCE = 10.0  # seconds after which people wonder
COLOURS = {"demo": "bold", "writer": "blue", "lakehand": "green"}


class Stage:
    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Screen(soft_wrap=True)
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
        self.console.print(joined(at, "  ", name, f" {text}"))

    def assure(self, text: str) -> None:
        """After a long silence: say that it goes on."""
        if time.monotonic() - self.last_line > SILENCE:
            self.line("demo", text)

    def heading(self, title: str, text: str) -> None:
        self.console.print()
        self.console.print(joined(data(title, "bold"), f": {text}."))

    def show(self, what: RenderableType) -> None:
        self.console.print(what)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Say what is waited for, while it is; the lines above go on."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(data(text)) as self.status:
            yield

    def progress(self, text: str) -> None:
        if self.status is not None:
            self.status.update(data(text))
