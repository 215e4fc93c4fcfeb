# SPDX-License-Identifier: Apache-2.0
"""What the commands and the demo print with: text for people, JSON for programs, a live view for --watch.

Text may come from a stranger's table. A plain string is data here: it is printed without markup, and its control
characters are escaped. Style is given by Text, made of constants and of ``data``.
"""

import json
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from lakehand.domain.texts import ago, span, visible

INTERVAL = 0.5  # seconds between two requests of --watch
WIDE = 200  # columns without a terminal
LAYOUT = "\n\t"  # control characters that are not escaped

Fetch = Callable[[], tuple[Any, bool]]  # the document, and whether it is final
View = Callable[[Any], RenderableType]


class SafeConsole(Console):
    """The only console of Lakehand: strings are data, and control characters are always escaped."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)
        self.push_render_hook(EscapeHook())

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text, keep=LAYOUT), **options)


class EscapeHook(RenderHook):
    """Escapes everything that is printed, because Text does not pass through ``render_str``."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [Escaped(renderable) for renderable in renderables]


class Escaped:
    def __init__(self, inner: RenderableType) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Control segments are ours: they move the cursor of a live view."""
        for text, style, control in console.render(self.inner, options):
            yield Segment(text if control else visible(text, keep=LAYOUT), style, control)


def stdout_console() -> SafeConsole:
    """Created when it is used, so that it prints to the current standard output."""
    console = SafeConsole()
    return console if console.is_terminal else SafeConsole(width=WIDE)


def data(value: object, style: str = "") -> Text:
    """Any value on one line, escaped."""
    return Text(visible(value), style=style)


def join(*parts: str | Text) -> Text:
    """One line of constants, data and styled words."""
    return Text.assemble(*(part if isinstance(part, Text) else data(part) for part in parts))


def print_line(text: str) -> None:
    SafeConsole(soft_wrap=True).print(data(text))


def print_error(message: str) -> None:
    """To standard error. Further lines are indented, so that none of them looks like a message of its own."""
    lines = "\n  ".join(visible(line, keep="\t") for line in message.split("\n"))
    SafeConsole(stderr=True, soft_wrap=True).print(Text(f"lakehand: {lines}"))


def print_document(document: Any, view: View, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        stdout_console().print(view(document))


def follow(fetch: Fetch, view: View, *, as_json: bool, interval: float = INTERVAL) -> Any:
    """Show a document until it is final; returns the last one."""
    console = stdout_console()
    if as_json or not console.is_terminal:
        return follow_lines(fetch, view, as_json=as_json, interval=interval)
    document, is_final = fetch()
    with Live(Escaped(view(document)), console=console, auto_refresh=False) as live:
        while not is_final:
            time.sleep(interval)
            document, is_final = fetch()
            live.update(Escaped(view(document)), refresh=True)
    return document


def follow_lines(fetch: Fetch, view: View, *, as_json: bool, interval: float) -> Any:
    """Without a terminal: print a document when it differs from the last one."""
    last = ""
    while True:
        document, is_final = fetch()
        text = json.dumps(document)
        if text != last:
            print(text, flush=True) if as_json else stdout_console().print(view(document))
        if is_final:
            return document
        last = text
        time.sleep(interval)


def parse_time(text: str | None) -> datetime | None:
    if not text:
        return None
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def when(text: str | None, now: datetime | None = None) -> str:
    """How long ago, or in how long."""
    moment = parse_time(text)
    if moment is None:
        return "–"
    return ago(((now or datetime.now(timezone.utc)) - moment).total_seconds())


def took(start: str | None, end: str | None, now: datetime | None = None) -> str:
    begun = parse_time(start)
    if begun is None:
        return "–"
    return span(max(0.0, ((parse_time(end) or now or datetime.now(timezone.utc)) - begun).total_seconds()))
