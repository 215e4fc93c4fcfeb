# SPDX-License-Identifier: Apache-2.0
"""What was measured: figures, the goals that some of them have, and how both are shown and stored."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

console = Console()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number. A goal is a bound, from above or from below."""

    bench: str
    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def goal(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}{self.suffix}"
        return f"≥ {self.at_least:g}{self.suffix}" if self.at_least is not None else ""

    @property
    def suffix(self) -> str:
        return f" {self.unit}" if self.unit else ""

    @property
    def is_reached(self) -> bool | None:
        """None without a goal."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return self.value >= self.at_least if self.at_least is not None else None


VERDICTS = {None: "", True: "[green]reached[/]", False: "[red]missed[/]"}


def show(figures: Sequence[Figure]) -> None:
    table = Table("bench", "figure", "value", "goal", "", title="Measured here, side by side")
    table.columns[2].justify = "right"
    for figure in figures:
        value = f"{figure.value:,.{decimals(figure.value)}f}{figure.suffix}"
        table.add_row(figure.bench, figure.name, value, figure.goal, VERDICTS[figure.is_reached])
    console.print(table)


def decimals(value: float) -> int:
    return 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2


def store(figures: Sequence[Figure], file: Path) -> None:
    rows = [{**asdict(figure), "is_reached": figure.is_reached} for figure in figures]
    file.write_text(json.dumps(rows, indent=2) + "\n")


def print_line(text: str) -> None:
    """Progress: one line when something begins or was learnt."""
    console.print(f"[dim]·[/] {text}")
