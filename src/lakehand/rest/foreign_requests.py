# SPDX-License-Identifier: Apache-2.0
"""Refuses requests for foreign hosts and from foreign web pages, before anything else sees them. Bare ASGI.

A web page can make its reader's browser send requests to any address that the reader can reach. It cannot leave out
the headers by which browsers say so, and it cannot send JSON to another site without asking that site first.
"""

from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from lakehand.rest.errors import problem
from lakehand.rest.hosts import Hosts, host_of
from lakehand.rest.refusals import Refusals
from lakehand.rest.wire import CALLBACK, PREFIX, answer
from lakehand.rest.wire_handler import refusal_answer

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
WITHOUT_BODY = "DELETE"  # no page can send it to another site without asking, which is never granted
OF_BROWSERS = frozenset({b"origin", b"referer", b"sec-fetch-site"})
OWN_SITES = frozenset({b"same-origin", b"none"})
JSON = b"application/json"


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    reason: str  # for the metric
    name: str  # what was refused
    message: str  # for whoever asked
    advice: str  # for the operator


class ForeignRequests:
    def __init__(self, app: ASGIApp, *, hosts: Hosts, refusals: Refusals) -> None:
        self.app = app
        self.hosts = hosts
        self.refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        is_wire = is_of_hudi(scope)
        refusal = self.look_at_writer(scope) if is_wire else self.look_at_host(scope) or look_at_page(scope)
        if refusal is None:
            return await self.app(scope, receive, send)
        self.refusals.note(refusal.reason, refusal.name, refusal.advice)
        if is_wire:
            return await answer(send, refusal_answer(refusal.message))
        refused = problem(refusal.status, refusal.reason, refusal.message)
        return await refused(scope, receive, send)

    def look_at_host(self, scope: Scope) -> Refusal | None:
        """No ``Host`` at all is no browser."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        return next((foreign_host(value) for value in hosts if not self.hosts.admits(value)), None)

    def look_at_writer(self, scope: Scope) -> Refusal | None:
        """Hudi's client is no browser: a browser comes here only because some page or link made it. The hot path."""
        for name, value in scope["headers"]:
            if name == b"host":
                if not self.hosts.admits(value):
                    return foreign_host(value)
            elif name in OF_BROWSERS or (name == b"user-agent" and value.startswith(b"Mozilla/")):
                text = "a browser sent this; writers' requests are taken from Hudi only"
                return cross_site(name.decode("latin-1"), text)
        return not_json() if scope["method"] == "POST" and not is_json(scope) else None


def is_of_hudi(scope: Scope) -> bool:
    """Requests whose sender fails on any answer but 200."""
    if not scope["path"].startswith(PREFIX):
        return False
    return scope["method"] in ("GET", "HEAD") or (scope["method"] == "POST" and scope["path"].rstrip("/") == CALLBACK)


def look_at_page(scope: Scope) -> Refusal | None:
    if scope["method"] in SAFE:
        return None
    headers = dict(scope["headers"])
    site, origin = headers.get(b"sec-fetch-site", b"none"), headers.get(b"origin")
    if site not in OWN_SITES or (origin is not None and not is_own(origin, headers.get(b"host", b""))):
        page = (origin or site).decode("latin-1")
        return cross_site(page, f"a page of another site ({page[:80]!a}) sent this: it may not change anything")
    if scope["method"] != WITHOUT_BODY and not is_json(scope):
        return not_json()
    return None


def is_own(origin: bytes, host: bytes) -> bool:
    """A page of ours has the host and port of the request as its origin; TLS may end at a proxy before us."""
    scheme, separator, authority = origin.lower().partition(b"://")
    return scheme in (b"http", b"https") and bool(separator) and bool(host) and authority == host.strip().lower()


def is_json(scope: Scope) -> bool:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    return len(kinds) == 1 and kinds[0].partition(b";")[0].strip().lower() == JSON


def foreign_host(header: bytes) -> Refusal:
    host = host_of(header.decode("latin-1"))
    message = f"this service does not go by the name {host[:80]!a}: if it should, add it to allowed_hosts"
    advice = "a request for a host that is not ours was refused: if it is, add it to allowed_hosts"
    return Refusal(421, "foreign-host", host, message, advice)


def cross_site(name: str, message: str) -> Refusal:
    return Refusal(403, "cross-site", name, message, "a request that a web page made a browser send was refused")


def not_json() -> Refusal:
    message = "send Content-Type: application/json, also where the body is empty: nothing else changes anything here"
    return Refusal(415, "not-json", "content-type", message, "a request that is no JSON was refused")
