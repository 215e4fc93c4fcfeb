# SPDX-License-Identifier: Apache-2.0
"""Words, numbers and times as pages show them."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from markupsafe import Markup

from lakehand.domain.texts import ago as ago_text
from lakehand.domain.texts import amount as bytes_text
from lakehand.domain.texts import span as span_text
from lakehand.domain.texts import visible

SHAPES = {
    "healthy": "●", "needs-work": "▲", "working": "◐", "failed": "■", "paused": "‖", "unreadable": "?", "new": "○",
    "succeeded": "●", "pending": "▲", "submitted": "◐", "running": "◐", "canceling": "◐", "unknown": "?",
    "canceled": "‖", "dropped": "‖", "on": "●", "off": "‖", "broken": "■", "failing": "■", "stuck": "■", "slow": "▲",
    "critical": "■", "warning": "▲", "resolved": "●",
}  # fmt: skip
WORDS = {
    "needs-work": "needs work",
    "small_files": "small files",
    "unreadable": "cannot be read",
    "new": "not evaluated yet",
}
BRIEF = 200  # characters of a reason in a list
DASH = "–"


def shape(word: object) -> str:
    """Readable without colour."""
    return SHAPES.get(str(word), "·")


def words(word: object) -> str:
    return WORDS.get(str(word), str(word))


def number(value: float | None) -> str:
    """12 481, with narrow spaces that do not break."""
    return DASH if value is None else f"{value:,}".replace(",", "\u202f")


def amount(value: float | None) -> str:
    return DASH if value is None else bytes_text(value)


def span(value: timedelta | float | None) -> str:
    """340 ms, 12 s, 3 min, 5 h, 2 d."""
    if value is None:
        return DASH
    return span_text(value.total_seconds() if isinstance(value, timedelta) else value)


def ago(moment: datetime, now: datetime) -> str:
    return ago_text((now - moment).total_seconds())


def iso(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def took(one: Any, now: datetime) -> str:
    """How long an operation or an attempt ran, so far or in all."""
    begun = one.started_at
    return DASH if begun is None else span(max((one.finished_at or now) - begun, timedelta()))


def brief(text: str) -> str:
    """A reason for a list: errors of engines can fill a screen, so only their first sentence."""
    text = text.strip()
    if len(text) <= BRIEF and "\n" not in text:
        return text
    sentence = re.split(r"(?<=[.!?])\s|\n", text, maxsplit=1)[0]
    return f"{sentence[:BRIEF].rstrip()} …"


def pairs(values: Mapping[str, Any]) -> str:
    """A small document in one line: owner sales, paused True."""
    return brief(", ".join(f"{name} {value}" for name, value in values.items() if value not in ("", {}, []))) or DASH


def shown(value: Any) -> Any:
    """Text may come from a stranger's table: characters that hide or reorder others are escaped."""
    if isinstance(value, Markup):
        return value
    return visible(value, keep="\n\t\u202f") if isinstance(value, str) else value


FILTERS = {one.__name__: one for one in (shape, words, number, amount, span, ago, iso, took, brief, pairs)}
