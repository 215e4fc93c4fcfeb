# SPDX-License-Identifier: Apache-2.0
"""Attempts as bars on one time axis, drawn as SVG without script or style of its own. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from lakehand.domain.operations import Attempt
from lakehand.web.texts import span

WIDTH, LEFT, ROW, BAR = 1000, 110, 24, 14
MOST_BARS = 20
DRAWN = frozenset({"succeeded", "failed", "running"})
THINNEST = 2.0


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
