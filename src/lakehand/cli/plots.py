# SPDX-License-Identifier: Apache-2.0
"""Draws a number over time with braille characters, two by four dots each: readable on 80 columns, without colour."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

WIDEST, NARROWEST = 100, 20  # columns of the whole, and of the plot itself
ROWS = 10
BLANK = 0x2800
DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))  # bits of the left and right column, from below
MINUTE = timedelta(minutes=1)
Label = Callable[[float], str]


def count_text(value: float) -> str:
    return f"{value:,.1f}" if value < 10 and value != round(value) else f"{value:,.0f}"


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A step function: each value holds until the next point. ``marks`` are characters below the time axis."""

    points: Sequence[tuple[datetime, float]]  # at least one, oldest first
    end: datetime
    marks: Sequence[tuple[datetime, str]] = ()
    label: Label = count_text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.lines(min(options.max_width, WIDEST)):
            yield Text(line, no_wrap=True)

    def lines(self, width: int) -> Iterator[str]:
        labels = self.labels()
        margin = max(map(len, labels))
        columns = max(width - margin - 2, NARROWEST)
        for label, row in zip(labels, draw(self.levels(2 * columns), columns), strict=True):
            yield f"{label:>{margin}} ┤{row}".rstrip()
        yield f"{'':>{margin}} └{'─' * columns}"
        if self.marks:
            yield f"{'':>{margin}}  {self.mark_line(columns)}".rstrip()
        yield f"{'':>{margin}}  {self.time_line(columns)}"

    @property
    def start(self) -> datetime:
        return self.points[0][0]

    @property
    def span(self) -> timedelta:
        return max(self.end - self.start, MINUTE)

    @property
    def highest(self) -> float:
        return max(value for _, value in self.points) or 1

    def labels(self) -> list[str]:
        """Of the highest value, the middle and zero; from above."""
        labels = [""] * ROWS
        labels[0], labels[ROWS // 2], labels[-1] = map(self.label, (self.highest, self.highest / 2, 0))
        return labels

    def levels(self, dots: int) -> list[int]:
        """The height of each column of dots, in dots."""
        times = [at for at, _ in self.points]
        top = 4 * ROWS - 1
        moments = (self.start + self.span * column / (dots - 1) for column in range(dots))
        values = (self.points[max(bisect_right(times, moment) - 1, 0)][1] for moment in moments)
        return [round(top * value / self.highest) for value in values]

    def mark_line(self, columns: int) -> str:
        line = [" "] * columns
        for at, sign in self.marks:
            column = min(int((at - self.start) / self.span * columns), columns - 1)
            if column >= 0:
                line[column] = merged(line[column], sign)
        return "".join(line)

    def time_line(self, columns: int) -> str:
        start, end = (f"{at:%Y-%m-%d %H:%M}" for at in (self.start, self.start + self.span))
        return f"{start}{end + ' UTC':>{max(columns - len(start), len(end) + 5)}}"


def merged(there: str, sign: str) -> str:
    """Of several in one column, a failure is shown; else a star stands for different ones."""
    if "!" in (there, sign):
        return "!"
    return sign if there in (" ", sign) else "*"


def draw(levels: Sequence[int], columns: int) -> list[str]:
    """The rows of a plot from above. Jumps are drawn as vertical lines."""
    cells = [[BLANK] * columns for _ in range(ROWS)]
    before = levels[0]
    for column, level in enumerate(levels):
        for dot in range(min(before, level), max(before, level) + 1):
            cells[ROWS - 1 - dot // 4][column // 2] |= DOTS[column % 2][dot % 4]
        before = level
    return ["".join(" " if cell == BLANK else chr(cell) for cell in row) for row in cells]
