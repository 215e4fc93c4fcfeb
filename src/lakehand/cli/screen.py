# SPDX-License-Identifier: Apache-2.0
"""Where commands print: text for people, JSON for programs, and a live view for those who wait.

Whatever is printed may come from a stranger's table. A plain string is data here: it is printed as it is, without
markup, and its control characters are shown escaped. Style is given by Text, made of constants and of ``data``.
"""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from lakehand.domain.texts import visible

INTERVAL = 0.5  # seconds between two looks
WIDE = 200  # columns where nobody says how wide it is
LAYOUT = "\n\t"  # what lays text out and stays

Look = Callable[[], tuple[Any, bool]]  # the document, and whether nothing more will change


class Screen(Console):
    """The only console of this package: strings are data, and no unseen character gets past it in any way."""

    def __init__(self, **how: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **how)
        self.push_render_hook(Shown())

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(visible(text, keep=LAYOUT), **how)


class Shown(RenderHook):
    """The last look at what is printed, whoever made it: Text does not pass ``render_str``."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [Visible(renderable) for renderable in renderables]


class Visible:
    def __init__(self, inner: RenderableType) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return visible_segments(console.render(self.inner, options))


def visible_segments(segments: Iterable[Segment]) -> Iterable[Segment]:
    """Control segments are ours: they move the cursor of a live view."""
    for text, style, control in segments:
        yield Segment(text if control else visible(text, keep=LAYOUT), style, control)


def console() -> Screen:
    """Made when it is used, so that it prints to wherever standard output is now."""
    screen = Screen()
    return screen if screen.is_terminal else Screen(width=WIDE)


def data(value: object, style: str = "") -> Text:
    """A stranger's word on one line, with none of its characters taken for more than it is."""
    return Text(visible(value), style=style)


def joined(*parts: str | Text) -> Text:
    """One line of constants, data and styled words."""
    return Text.assemble(*(part if isinstance(part, Text) else data(part) for part in parts))


def say(text: str) -> None:
    Screen(soft_wrap=True).print(data(text))


def show(document: Any, view: Callable[[Any], RenderableType], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        console().print(view(document))


def follow(look: Look, view: Callable[[Any], RenderableType], *, as_json: bool, interval: float = INTERVAL) -> Any:
    """Show a document again and again until it is finished; returns the last one."""
    screen = console()
    if as_json or not screen.is_terminal:
        return follow_lines(look, view, as_json=as_json, interval=interval)
    document, finished = look()
    with Live(Visible(view(document)), console=screen, auto_refresh=False) as live:
        while not finished:
            time.sleep(interval)
            document, finished = look()
            live.update(Visible(view(document)), refresh=True)
    return document


def follow_lines(look: Look, view: Callable[[Any], RenderableType], *, as_json: bool, interval: float) -> Any:
    """The same without a terminal: a document is printed when it differs from the last one."""
    last = ""
    while True:
        document, finished = look()
        text = json.dumps(document)
        if text != last:
            print(text, flush=True) if as_json else console().print(view(document))
        if finished:
            return document
        last = text
        time.sleep(interval)
