# SPDX-License-Identifier: Apache-2.0
"""Shows tables as they were looked at: lines or cards for people, JSON lines for programs, progress for the patient."""

import json
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.status import Status

from lakehand.cli.check_views import card, counted, line
from lakehand.cli.problems import complain
from lakehand.cli.screen import Screen, console, data
from lakehand.cli.times import span

if TYPE_CHECKING:
    from lakehand.app.checkup import Checked

PACE = 2.0  # seconds between two words about the progress where there is no terminal


class CheckScreen(AbstractContextManager["CheckScreen"]):
    """One table is a card; from the second on each is a line, unless ``long`` is wanted."""

    def __init__(self, *, as_json: bool, long: bool) -> None:
        self.as_json = as_json
        self.long = long
        self.began = time.perf_counter()
        self.out = console()
        self.states: Counter[str] = Counter()
        self.needs: Counter[str] = Counter()
        self.formats: Counter[str] = Counter()
        self.missing = 0  # names that were given and lead to nothing
        self._first: Checked | None = None
        self._said = time.perf_counter()
        self._waiting = self._waiter()

    @property
    def troubled(self) -> int:
        return self.states["needs"] + self.states["broken"]

    @property
    def tables(self) -> int:
        return sum(self.states.values())

    def __enter__(self) -> "CheckScreen":
        if self._waiting:
            self._waiting.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._waiting:
            self._waiting.stop()
        if self._first is not None:
            self.out.print(card(self._first.document))

    def show(self, checked: "Checked", *, folders: int) -> None:
        if not checked.location:
            self.missing += 1
            complain(checked.problem)
            return
        self._count(checked)
        if self.as_json:
            print(json.dumps(checked.document), flush=True)
        else:
            self._print(checked)
        self._tell(folders)

    def sum_up(self) -> None:
        if self.tables < 2 or self.as_json:
            return
        took = span(time.perf_counter() - self.began)
        parts = [f"{self.states['needs']} need something{counted(self.needs)}"]
        parts += [f"{self.states['broken']} are broken"] if self.states["broken"] else []
        self.out.print(f"{self.tables} tables{counted(self.formats)} in {took}: {', '.join(parts)}", style="bold")

    def _count(self, checked: "Checked") -> None:
        self.states[checked.document["state"]] += 1
        self.needs.update(str(decision.action) for decision in checked.needs)
        self.formats.update([checked.format] if checked.format else [])

    def _print(self, checked: "Checked") -> None:
        """The first table waits for a second one, which tells whether it is the only one."""
        if self.long:
            self.out.print(card(checked.document))
        elif self.tables == 1:
            self._first = checked
        else:
            held, self._first = self._first, None
            for one in [held, checked] if held else [checked]:
                self.out.print(line(one.document), soft_wrap=True)

    def _waiter(self) -> Status | None:
        """Where the lines go if that is a terminal, else where errors go."""
        place = self.out if self.out.is_terminal and not self.as_json else Screen(stderr=True)
        return Status("looking for tables", console=place) if place.is_terminal else None

    def _tell(self, folders: int) -> None:
        text = f"{self.tables} tables in {folders} folders, {self.troubled} need something or are broken"
        if self._waiting:
            self._waiting.update(data(text))
        elif time.perf_counter() - self._said > PACE:
            self._said = time.perf_counter()
            print(f"lakehand: {text} ...", file=sys.stderr, flush=True)
