# SPDX-License-Identifier: Apache-2.0
"""Refuses requests for foreign hosts and from foreign web pages, before anything else sees them. Plain ASGI.

A web page can make a browser send requests to any address that the browser can reach. It cannot remove the headers
that browsers add, and it cannot send JSON to another site without a preflight request, which is never granted.
"""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from lakehand.rest.errors import problem
from lakehand.rest.refusals import Hosts, Refusals, host_of
from lakehand.rest.wire import answer, is_from_hudi, refusal_answer

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
WITHOUT_BODY = "DELETE"  # needs a preflight request, which is never granted
OF_BROWSERS = frozenset({b"origin", b"referer", b"sec-fetch-site"})
OWN_SITES = frozenset({b"same-origin", b"none"})
# No form of a web page can have one of these types.
JSON = frozenset({b"application/json", b"application/cloudevents+json", b"application/cloudevents-batch+json"})
TEXT, OF_SNS = b"text/plain", b"x-amz-sns-message-type"  # SNS sends JSON as text; no form can have its header


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    reason: str  # for the metric
    name: str  # what was refused
    message: str  # for the client
    advice: str  # for the operator


class ForeignRequests:
    def __init__(
        self, app: ASGIApp, *, hosts: Hosts, refusals: Refusals, is_page: Callable[[str], bool] = lambda _path: False
    ) -> None:
        self.app = app
        self.is_page = is_page
        self.hosts = hosts
        self.refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        is_wire = is_from_hudi(scope)
        refusal = self.check_writer(scope) if is_wire else self.check_host(scope) or self.check_sender(scope)
        if refusal is None:
            return await self.app(scope, receive, send)
        self.refusals.note(refusal.reason, refusal.name, refusal.advice)
        if is_wire:
            return await answer(send, refusal_answer(refusal.message))
        refused = problem(refusal.status, refusal.reason, refusal.message)
        return await refused(scope, receive, send)

    def check_host(self, scope: Scope) -> Refusal | None:
        """Browsers always send a ``Host``; without one there is nothing to check."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        return next((foreign_host(value) for value in hosts if not self.hosts.admits(value)), None)

    def check_sender(self, scope: Scope) -> Refusal | None:
        return check_form(scope) if self.is_page(scope["path"]) else check_page(scope)

    def check_writer(self, scope: Scope) -> Refusal | None:
        """Hudi's client is not a browser; a browser comes here only from some page or link. On the hot path."""
        for name, value in scope["headers"]:
            if name == b"host":
                if not self.hosts.admits(value):
                    return foreign_host(value)
            elif name in OF_BROWSERS or (name == b"user-agent" and value.startswith(b"Mozilla/")):
                text = "a browser sent this; writers' requests are taken from Hudi only"
                return cross_site(name.decode("latin-1"), text)
        return not_json() if scope["method"] == "POST" and not is_json(scope) else None


def check_page(scope: Scope) -> Refusal | None:
    if scope["method"] in SAFE:
        return None
    headers = dict(scope["headers"])
    site, origin = headers.get(b"sec-fetch-site", b"none"), headers.get(b"origin")
    if site not in OWN_SITES or (origin is not None and not is_own(origin, headers.get(b"host", b""))):
        page = (origin or site).decode("latin-1")
        return cross_site(
            page, f"a page of another site ({page[:80]!a}) sent this, and may not change anything: use the API directly"
        )
    if scope["method"] != WITHOUT_BODY and not is_json(scope):
        return not_json()
    return None


def check_form(scope: Scope) -> Refusal | None:
    """A form of our pages. Browsers send the origin of every form; without it, nothing proves that it is ours."""
    if scope["method"] in SAFE:
        return None
    headers = dict(scope["headers"])
    site, origin = headers.get(b"sec-fetch-site", b"same-origin"), headers.get(b"origin", b"")
    if site == b"same-origin" and is_own(origin, headers.get(b"host", b"")):
        return None
    page = (origin or site).decode("latin-1")
    text = f"this form was not sent by a page of this service ({page[:80]!a}): open the page here and send it again"
    return cross_site(page, text)


def is_own(origin: bytes, host: bytes) -> bool:
    """Our own pages have the request's host and port as origin. The scheme may differ behind a TLS proxy."""
    scheme, separator, authority = origin.lower().partition(b"://")
    return scheme in (b"http", b"https") and bool(separator) and bool(host) and authority == host.strip().lower()


def is_json(scope: Scope) -> bool:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    if len(kinds) != 1:
        return False
    kind = kinds[0].partition(b";")[0].strip().lower()
    return kind in JSON or (kind == TEXT and any(name == OF_SNS for name, _ in scope["headers"]))


def foreign_host(header: bytes) -> Refusal:
    host = host_of(header.decode("latin-1"))
    message = f"{host[:80]!a} is not a name of this service: if it should be, add it to allowed_hosts"
    advice = "a request for a foreign host was refused: if the name is ours, add it to allowed_hosts"
    return Refusal(421, "foreign-host", host, message, advice)


def cross_site(name: str, message: str) -> Refusal:
    return Refusal(
        403, "cross-site", name, message, "a browser sent a request for a page of another site; it was refused"
    )


def not_json() -> Refusal:
    message = "the request is not JSON: send Content-Type: application/json, even with an empty body"
    return Refusal(415, "not-json", "content-type", message, "a request that is not JSON was refused")
