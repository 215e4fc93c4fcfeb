# SPDX-License-Identifier: Apache-2.0
"""Where commands print: text for people, JSON for programs, and a live view for those who wait."""

import json
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

INTERVAL = 0.5  # seconds between two looks
WIDE = 200  # columns where nobody says how wide it is

Look = Callable[[], tuple[Any, bool]]  # the document, and whether nothing more will change


def console() -> Console:
    """Made when it is used, so that it prints to wherever standard output is now."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=WIDE)


def say(text: str) -> None:
    Console(highlight=False, soft_wrap=True).print(text)


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
    with Live(view(document), console=screen, auto_refresh=False) as live:
        while not finished:
            time.sleep(interval)
            document, finished = look()
            live.update(view(document), refresh=True)
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
