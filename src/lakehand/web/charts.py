# SPDX-License-Identifier: Apache-2.0
"""Charts: as data, which the browser draws and a table repeats, and attempts as bars in SVG. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup

from lakehand.core.ports import OperationEnd
from lakehand.core.services.tables import TableHistory
from lakehand.domain.health import HealthPoint
from lakehand.domain.operations import Attempt
from lakehand.spi import health
from lakehand.web.texts import DASH, iso, number, span

LONGEST_TABLE = 200  # rows
LINES = {
    "files": (health.FILES, "working"),
    "small files": (health.SMALL_FILES, "needs-work"),
    "delete files": (health.DELETE_FILES, "failed"),
    "deletion vectors": (health.DELETION_VECTORS, "failed"),
    "log files": (health.LOG_FILES, "unreadable"),
    "snapshots": (health.SNAPSHOTS, "paused"),
}
ANNOTATION_COLOURS = {"succeeded": "healthy", "failed": "failed"}
REWRITES = frozenset(
    {"compaction", "clustering", "log-compaction", "rewrite-data", "optimize", "z-order", "compact", "purge"}
)
WIDTH, LEFT, ROW, BAR = 1000, 110, 24, 14
MOST_BARS = 20
DRAWN = frozenset({"succeeded", "failed", "running"})
THINNEST = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    name: str
    colour: str  # a colour of the style sheet
    x: Sequence[str]
    y: Sequence[float | None]
    bars: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Something that happened at a time, for instance an operation."""

    at: datetime
    text: str
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    id: str
    title: str
    series: Sequence[Series]
    annotations: Sequence[Annotation] = ()
    kind: str = "time"  # or "category"
    unit: str = ""
    nothing: str = "There is nothing to show yet."
    stacked: bool = False
    first_column: str = "time"

    @property
    def is_empty(self) -> bool:
        """No line has a point, and no bar has a height."""
        return not any(any(one.y) if one.bars else one.x for one in self.series)

    @property
    def json(self) -> Markup:
        """As the content of a script element: nothing in it can end the element."""
        document: dict[str, Any] = {
            "kind": self.kind,
            "unit": self.unit,
            "barmode": "stack" if self.stacked else "group",
            "series": [
                {"name": one.name, "colour": one.colour, "x": list(one.x), "y": list(one.y), "bars": one.bars}
                for one in self.series
                if any(value for value in one.y) or not one.bars
            ],
            "annotations": [
                {"x": iso(annotation.at), "text": annotation.text, "colour": annotation.colour}
                for annotation in self.annotations
            ],
        }
        text = json.dumps(document, ensure_ascii=True)
        return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704

    @property
    def head(self) -> Sequence[str]:
        return [self.first_column, *(one.name for one in self.series)]

    @property
    def rows(self) -> Iterable[Sequence[str]]:
        """The newest rows, newest first; categories in their order."""
        keys = list(dict.fromkeys(x for one in self.series for x in one.x))
        values = [dict(zip(one.x, one.y, strict=True)) for one in self.series]
        ordered = sorted(keys, reverse=True)[:LONGEST_TABLE] if self.kind == "time" else keys
        for key in ordered:
            yield [key, *(DASH if one.get(key) is None else number(one[key]) for one in values)]


def files_chart(history: TableHistory) -> Chart:
    points = history.points
    times = [iso(point.at) for point in points]
    series = [
        Series(name=name, colour=colour, x=times, y=[point.count(key) for point in points])
        for name, (key, colour) in LINES.items()
        if any(point.count(key) for point in points)
    ]
    return Chart(
        id="files", title="Files over time", unit="files", series=series,
        annotations=[annotation_of(end) for end in history.operations],
        nothing="The first point is stored when the table is inspected for the first time.",
    )  # fmt: skip


def annotation_of(end: OperationEnd) -> Annotation:
    text = f"{end.action} {end.status} (operation {end.id})"
    return Annotation(at=end.finished_at, text=text, colour=ANNOTATION_COLOURS.get(str(end.status), "paused"))


def sizes_chart(history: TableHistory) -> Chart:
    """The sizes now, and before the last rewrite that succeeded."""
    now = sizes(history.points[-1]) if history.points else {}
    before = sizes_before(history)
    series = [
        Series(name="before the last rewrite", colour="paused", x=list(before), y=list(before.values()), bars=True)
    ]
    series = [
        *(series if before else []),
        Series(name="now", colour="working", x=list(now), y=list(now.values()), bars=True),
    ]
    return Chart(
        id="sizes", title="File sizes", kind="category", unit="files", series=series, first_column="size",
        nothing="They are known when the table was inspected.",
    )  # fmt: skip


def sizes_before(history: TableHistory) -> Mapping[str, int]:
    rewrites = [end for end in history.operations if end.action in REWRITES and str(end.status) == "succeeded"]
    if not rewrites:
        return {}
    earlier: Sequence[HealthPoint] = [p for p in history.points if p.at < rewrites[-1].finished_at]
    return sizes(earlier[-1]) if earlier else {}


def sizes(point: HealthPoint) -> Mapping[str, int]:
    found = point.numbers.get(health.HISTOGRAM)
    counts = found if isinstance(found, Mapping) else {}
    return {name: count for name in health.SIZE_CLASSES if isinstance(count := counts.get(name), int)}


@dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of time, drawn from left to right."""

    start: datetime
    end: datetime

    @property
    def whole(self) -> timedelta:
        return max(self.end - self.start, timedelta(seconds=1))

    def bar(self, kind: str, begin: datetime, end: datetime, *, top: int, title: str) -> Markup:
        room = WIDTH - LEFT
        left = min(LEFT + room * max((begin - self.start) / self.whole, 0.0), WIDTH - THINNEST)
        width = min(max(room * ((end - begin) / self.whole), THINNEST), WIDTH - left)
        shape = Markup('<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"><title>{}</title></rect>')
        return shape.format(kind, left, top, width, BAR, title)


def timeline(axis: Axis, attempts: Sequence[Attempt]) -> Markup:
    """The newest attempts, with the wait before each."""
    shown = attempts[-MOST_BARS:]
    if not shown:
        return Markup("")
    ends = [axis.start, *(one.finished_at or one.started_at for one in shown)]
    lines = [line for row, one in enumerate(shown) for line in bars(axis, one, waited_since=ends[row], top=ROW * row)]
    bottom = ROW * len(shown)
    head = Markup(
        '<svg class="attempts" viewBox="0 0 {} {}" role="img" aria-label="attempts on a time axis; the table below has '
        'the numbers">'
    ).format(WIDTH, bottom + ROW)
    scale = Markup(
        '<line class="axis" x1="{left}" y1="{bottom}" x2="{width}" y2="{bottom}"/><text x="{left}" y="{text}">0</text>'
        '<text x="{width}" y="{text}" text-anchor="end">{span}</text></svg>'
    ).format(left=LEFT, bottom=bottom, width=WIDTH, text=bottom + ROW - 6, span=span(axis.whole))
    return head + Markup("").join(lines) + scale


def bars(axis: Axis, one: Attempt, *, waited_since: datetime, top: int) -> Iterator[Markup]:
    top += (ROW - BAR) // 2
    begin, end, outcome = one.started_at, one.finished_at or axis.end, one.outcome or "running"
    yield Markup('<text x="0" y="{}">attempt {}</text>').format(top + BAR - 2, one.number)
    yield axis.bar("waiting", waited_since, begin, top=top, title=f"waited {span(begin - waited_since)}")
    kind = outcome if outcome in DRAWN else "other"
    yield axis.bar(kind, begin, end, top=top, title=f"{outcome} after {span(end - begin)}")
