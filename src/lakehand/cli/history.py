# SPDX-License-Identifier: Apache-2.0
"""lakehand tables history: plots one number of a table over time, and marks where operations ended."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from lakehand.cli.options import CommandFailed, Session, TableName
from lakehand.cli.views import name_of, problem_text, some
from lakehand.client import Document
from lakehand.domain.texts import amount, span
from lakehand.output import data, join, parse_time

WIDEST, NARROWEST = 100, 20  # columns of the whole, and of the plot itself
ROWS = 10
BLANK = 0x2800
DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))  # bits of the left and right column, from below
MINUTE = timedelta(minutes=1)
Label = Callable[[float], str]
Number = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What to plot: files, bytes, small_files, small_bytes, delete_files, deletion_vectors, log_files, "
        "snapshots, pending_plans or rows, as far as the format has it.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Nothing older: a duration such as 90m, 12h or 7d, or a time (RFC 3339)."),
]


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


def history(table: TableName, *, number: Number = "files", since: Since = None, session: Session) -> None:
    """Plot the health of a table over time, with marks where operations ended.

    Its numbers are stored when it is evaluated and when an operation of it succeeds.

    Kept are one point a minute for an hour, one in 15 minutes for a day, one in 6 hours for 30 days.
    """
    tables = session.client.tables
    known = tables.get(table)
    start = None if since is None else start_of(since, datetime.now(timezone.utc))
    document = tables.health(known, since=start).raw
    if not session.as_json:
        check_number(document, number)
    session.show(document, partial(history_view, number=number))


def start_of(text: str, now: datetime) -> datetime:
    try:
        found = parse_time(text) if "-" in text else now - duration_of(text)
        return (found or now).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise CommandFailed(
            f"--since {text!r} is neither a duration nor a time: use 90m, 12h, 7d or 2026-11-15T19:10:00Z"
        ) from None


def duration_of(text: str) -> timedelta:
    from lakehand.app.setting_types import read_duration

    length = read_duration(text)
    assert isinstance(length, timedelta)
    return length


def check_number(document: Document, number: str) -> None:
    names = sorted({name for point in document["points"] for name, value in counts(point).items() if value is not None})
    if names and number not in names:
        raise CommandFailed(f"{name_of(document['table'])} has no number {number!r}: it has {', '.join(names)}")


def counts(point: Document) -> Document:
    return {name: value for name, value in point["numbers"].items() if not isinstance(value, dict)}


def history_view(document: Document, *, number: str, now: datetime | None = None) -> RenderableType:
    table, now = document["table"], now or datetime.now(timezone.utc)
    points = [(moment(p["at"]), p["numbers"][number]) for p in document["points"] if number in p["numbers"]]
    problem: list[RenderableType] = [problem_text(table)] if table.get("problem") else []
    if not points:
        return Group(*problem, data(f"no health of {name_of(table)} in that time: it is stored when the table is "
                                    f"evaluated, for instance by lakehand tables evaluate {table['id']}"))  # fmt: skip
    label = amount if number.endswith("bytes") else count_text
    letters = letters_of(document["operations"])
    marks = [(moment(one["finished_at"]), sign_of(one, letters)) for one in document["operations"]]
    plot = Plot(points=points, end=max(now, points[-1][0]), marks=marks, label=label)
    head = f"{name_of(table)}: {number} over {span(plot.span.total_seconds())}, {some(len(points), 'points')}"
    return Group(*problem, data(head, "bold"), Text(), plot, Text(), *legend(document["operations"], letters),
                 data(summary([value for _, value in points], label)))  # fmt: skip


def summary(values: list[float], show: Label) -> str:
    first, last, low, high = map(show, (values[0], values[-1], min(values), max(values)))
    return f"now {last}; at first {first}, lowest {low}, highest {high}"


def letters_of(operations: list[Document]) -> dict[str, str]:
    """A letter for each action: its first one that is still free."""
    letters: dict[str, str] = {}
    for action in sorted({one["action"] for one in operations}):
        free = (c for c in f"{action}abcdefghijklmnopqrstuvwxyz" if c.isalpha() and c not in letters.values())
        letters[action] = next(free, "?")
    return letters


def sign_of(operation: Document, letters: dict[str, str]) -> str:
    return "!" if operation["status"] == "failed" else letters[operation["action"]]


def legend(operations: list[Document], letters: dict[str, str]) -> Iterator[Text]:
    """A line for each action: its letter, and how its operations ended."""
    ends = Counter((one["action"], one["status"]) for one in operations)
    for action, letter in letters.items():
        counted = ", ".join(f"{count} {status}" for (name, status), count in sorted(ends.items()) if name == action)
        failed = " (!)" if (action, "failed") in ends else ""
        yield join(f"{letter}  {action}: {counted}{failed}")


def moment(text: str) -> datetime:
    found = parse_time(text)
    assert found is not None
    return found
