# SPDX-License-Identifier: Apache-2.0
"""Attempts as bars on one time axis, drawn as SVG without script or style of its own. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from lakehand.domain.operations import Attempt
from lakehand.web.texts import span

WIDTH, LEFT, ROW, BAR = 1000, 110, 24, 14
MOST_BARS = 20
OUTCOMES = frozenset({"succeeded", "failed"})


def timeline(start: datetime, end: datetime, attempts: Sequence[Attempt], now: datetime) -> Markup:
    """The newest attempts, with the wait before each."""
    shown = attempts[-MOST_BARS:]
    if not shown:
        return Markup("")
    whole = max(end - start, timedelta(seconds=1))
    lines = [line for number, one in enumerate(shown) for line in bars(one, number, start, whole, now, shown)]
    height = ROW * len(shown) + ROW
    axis = Markup(
        '<line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"/><text x="{}" y="{}">0</text>'
        '<text x="{}" y="{}" text-anchor="end">{}</text>'
    ).format(LEFT, height - ROW, WIDTH, height - ROW, LEFT, height - 6, WIDTH, height - 6, span(whole))
    head = Markup(
        '<svg class="attempts" viewBox="0 0 {} {}" role="img" aria-label="attempts on a time axis; the table below has '
        'the numbers">'
    ).format(WIDTH, height)
    return head + Markup("").join([*lines, axis]) + Markup("</svg>")


def bars(
    one: Attempt, number: int, start: datetime, whole: timedelta, now: datetime, shown: Sequence[Attempt]
) -> Iterator[Markup]:
    top = ROW * number + (ROW - BAR) // 2
    waited_since = (shown[number - 1].finished_at or one.started_at) if number else start
    begin, end = one.started_at, one.finished_at or now
    outcome = one.outcome or "running"
    kind = outcome if outcome in OUTCOMES or outcome == "running" else "other"
    yield Markup('<text x="0" y="{}">attempt {}</text>').format(top + BAR - 2, one.number)
    yield bar("waiting", waited_since, begin, start, whole, top, f"waited {span(begin - waited_since)}")
    yield bar(kind, begin, end, start, whole, top, f"{outcome} after {span(end - begin)}")


def bar(
    kind: str, begin: datetime, end: datetime, start: datetime, whole: timedelta, top: int, title: str
) -> Markup:
    left = LEFT + (WIDTH - LEFT) * max((begin - start) / whole, 0.0)
    width = max((WIDTH - LEFT) * max((end - begin) / whole, 0.0), 2.0)
    return Markup('<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"><title>{}</title></rect>').format(
        kind, min(left, WIDTH - 2.0), top, min(width, WIDTH - left if left < WIDTH - 2 else 2.0), BAR, title
    )
