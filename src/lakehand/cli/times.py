# SPDX-License-Identifier: Apache-2.0
"""Times and sizes as people say them."""

from datetime import datetime, timezone


def parsed(text: str | None) -> datetime | None:
    if not text:
        return None
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def span(seconds: float) -> str:
    """340 ms, 12 s, 3 min, 5 h, 2 d."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def when(text: str | None, now: datetime | None = None) -> str:
    """How long ago, or in how long."""
    moment = parsed(text)
    if moment is None:
        return "–"
    seconds = ((now or datetime.now(timezone.utc)) - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def took(start: str | None, end: str | None, now: datetime | None = None) -> str:
    begun = parsed(start)
    if begun is None:
        return "–"
    return span(max(0.0, ((parsed(end) or now or datetime.now(timezone.utc)) - begun).total_seconds()))


def size(number: int) -> str:
    value = float(number)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
