# SPDX-License-Identifier: Apache-2.0
"""A real browser that looks at the pages of a service, and records whatever a page must not do."""

import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request

IMAGES = Path(__file__).parents[2] / "docs" / "images" / "dashboard"
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
TALLEST = 1000  # pixels of a picture
WITHOUT_NETWORK = ("data:", "blob:")
VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy violated: ${event.violatedDirective} by ${event.blockedURI}`);
});
"""
# The folder and the host of a test say nothing to a reader of the documents.
REPLACE_TEXTS = """
(pairs) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const change = (text) => pairs.reduce((sofar, [old, next]) => sofar.replaceAll(old, next), text);
  while (walker.nextNode()) walker.currentNode.data = change(walker.currentNode.data);
  for (const one of document.querySelectorAll("input[type=text]")) one.value = change(one.value);
}
"""
WIDER_THAN_THE_SCREEN = """
() => [...document.querySelectorAll("body *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, .plot, pre, .skip"))
  .map((one) => one.outerHTML.slice(0, 120))
"""


class BrowserMissing(Exception):
    """Chromium is not installed on this machine."""


def launch(playwright: Playwright) -> Browser:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise BrowserMissing("there is no Chromium here: apt install chromium")
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])


@dataclass
class Visitor:
    """What somebody with a browser of their own does at one service."""

    url: str
    context: BrowserContext
    page: Page
    foreign: list[str] = field(default_factory=list)  # requests to any other address
    errors: list[str] = field(default_factory=list)  # of the console, of scripts, and violations of the policy

    def go(self, path: str) -> Page:
        """Open a page and wait until its scripts have run."""
        self.page.goto(self.url + path)
        return self.page

    def note_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.url}/", *WITHOUT_NETWORK)):
            self.foreign.append(request.url)

    def note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def expect_errors(self, pattern: str) -> None:
        """The browser reports a refused request, soon: this was wanted, all other errors are still counted."""
        for _ in range(100):
            if any(re.search(pattern, one) for one in self.errors):
                break
            self.page.wait_for_timeout(50)
        assert any(re.search(pattern, one) for one in self.errors), f"no error matches {pattern}: {self.errors}"
        self.errors = [one for one in self.errors if not re.search(pattern, one)]


@contextmanager
def visit(browser: Browser, url: str, **options: Any) -> Iterator[Visitor]:
    """Nothing leaves the service's own address, and no page reports an error."""
    context = browser.new_context(**{"viewport": WIDE, "color_scheme": "light", "reduced_motion": "reduce", **options})
    context.set_default_timeout(20_000)
    visitor = Visitor(url, context, context.new_page())
    context.add_init_script(VIOLATIONS)
    context.on("request", visitor.note_request)
    context.on("console", visitor.note_message)
    context.on("weberror", lambda error: visitor.errors.append(f"{error.error}"))
    try:
        yield visitor
    finally:
        context.close()
    assert not visitor.foreign, f"requests to other addresses: {visitor.foreign}"
    assert not visitor.errors, f"errors in the browser: {visitor.errors}"


def accessibility_problems(page: Page, *rules: str) -> list[str]:
    """By all rules of axe, or by these."""
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{urlsplit(page.url).path}: {one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


def sideways_overflow(page: Page) -> list[str]:
    """What makes the document wider than the screen."""
    if page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
        return []
    found: list[str] = page.evaluate(WIDER_THAN_THE_SCREEN)
    return [f"{page.url} is {page.evaluate('document.documentElement.scrollWidth')} wide", *found]


def wait_for_charts(page: Page) -> None:
    """The library draws into each figure that has data."""
    page.wait_for_function(
        "() => [...document.querySelectorAll('figure[data-chart] .plot')].every((one) => one.querySelector('svg'))"
    )


def take_picture(page: Page, name: str, lake: Path) -> None:
    """For the documents, and only if it was asked for: a test leaves the repository as it was."""
    if os.environ.get("LAKEHAND_SCREENSHOTS") != "1":
        return
    page.evaluate(REPLACE_TEXTS, [[str(lake), "/lake"], [socket.gethostname(), "lakehand"]])
    IMAGES.mkdir(parents=True, exist_ok=True)
    height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
    clip = {"x": 0, "y": 0, "width": WIDE["width"], "height": height}
    page.screenshot(path=IMAGES / f"{name}.png", full_page=True, clip=clip)  # type: ignore[arg-type]
