# SPDX-License-Identifier: Apache-2.0
"""Renders templates, sets the headers that keep a page to itself, and turns errors into a status and a sentence."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, FileSystemLoader, Template
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, StreamingResponse

from lakehand.domain.errors import LakehandError
from lakehand.web.context import PageContext
from lakehand.web.texts import FILTERS, shown

FOLDER = Path(__file__).parent
# The chart library adds an empty style element and one constant one; their hashes admit these and no other.
CHART_STYLES = (
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=' 'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='"
)
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' {CHART_STYLES}",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATUSES = {
    "not-found": 404, "invalid": 422, "location-refused": 422, "conflict": 409, "location-taken": 409,
    "illegal-step": 409, "forbidden": 403, "unavailable": 503,
}  # fmt: skip


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, finalize=shown,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.filters.update(FILTERS)
    return made


@cache
def static_version() -> str:
    """Changes with any file, so that browsers may keep them forever."""
    digest = hashlib.sha256()
    for file in sorted((FOLDER / "static").iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Renderer:
    context: PageContext
    environment: Environment = field(default_factory=environment)
    static: str = field(default_factory=lambda: f"/static/{static_version()}")

    def page(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """``section``: the entry of the menu; ``watch``: the topic that keeps it up to date; ``error``: a refusal;
        ``address``: where the page can be read again, if it answers a form."""
        given = self.common() | {"status": status} | values
        return HTMLResponse(self.template(template).render(given), status, headers=HEADERS)

    def stream(self, template: str, **values: Any) -> StreamingResponse:
        """Send the page while its values are still being found."""
        parts = self.template(template).generate(self.common() | values)
        return StreamingResponse(chunks(parts), headers=HEADERS, media_type="text/html")

    def template(self, name: str) -> Template:
        return self.environment.get_template(name)

    def common(self) -> dict[str, Any]:
        services = self.context.services
        return {
            "static": self.static, "version": services.about.version, "now": services.clock.estimate(),
            "is_open": services.access.is_open, "caller": None, "section": "", "watch": "", "error": "",
            "search": "", "address": "", "open_alerts": sum(services.alerts.counts().values()),
        }  # fmt: skip


def chunks(parts: Iterator[str]) -> Iterator[str]:
    """Whole lines: a browser shows what it has."""
    waiting: list[str] = []
    for part in parts:
        waiting.append(part)
        if "\n" in part:
            yield "".join(waiting)
            waiting.clear()
    yield "".join(waiting)


def status_of(error: LakehandError) -> int:
    return STATUSES.get(error.code, 500)


def describe(error: Exception) -> tuple[int, str]:
    if isinstance(error, LakehandError):
        return status_of(error), str(error)
    if isinstance(error, RequestValidationError):
        return 422, "the address has a value that does not make sense"
    if isinstance(error, HTTPException):
        return error.status_code, "there is no such page" if error.status_code == 404 else str(error.detail)
    return 500, "the page failed unexpectedly: see the log of the service"
