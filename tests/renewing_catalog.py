# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a REST catalog that renews credentials: Nessie 0.99 hands them out, but names no address for new ones.

It passes everything on to Nessie. The credentials of each table run out soon, and it has new ones to give.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

NEW_KEY = "RENEWED"  # begins the keys that it gives out
ADDRESS = "/renewed-credentials"
LIFE = 60  # seconds; clients ask for new ones some minutes before the end, which is at once
DROPPED = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host"})


@dataclass
class RenewingCatalog:
    address: str = ""  # http://host:port
    path: str = ""
    renewals: int = 0  # how often somebody has asked for new credentials

    @property
    def uri(self) -> str:
        return f"{self.address}/{self.path}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    catalog: RenewingCatalog
    upstream: str  # http://host:port

    def carry(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith(ADDRESS):
            self.catalog.renewals += 1
            self.answer(200, "application/json", json.dumps(new_credentials()).encode())
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in DROPPED}
        found = httpx.request(self.command, f"{self.upstream}{self.path}", headers=headers, content=body, timeout=60)
        text = found.content.replace(
            self.upstream.encode(), self.catalog.address.encode()
        )  # Nessie names its own address
        self.answer(found.status_code, found.headers.get("content-type", ""), self.with_renewal(text))

    do_GET = do_HEAD = do_POST = do_DELETE = carry  # noqa: N815 - the names of the standard library

    def with_renewal(self, text: bytes) -> bytes:
        """A table that was loaded: its credentials end soon, and there are new ones at our address."""
        try:
            document: Any = json.loads(text)
        except ValueError:
            return text
        if not isinstance(document, dict) or "s3.session-token" not in (document.get("config") or {}):
            return text
        renewal = {"client.refresh-credentials-endpoint": f"{self.catalog.address}{ADDRESS}", **expiry()}
        return json.dumps({**document, "config": {**document["config"], **renewal}}).encode()

    def answer(self, status: int, kind: str, data: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Tests count renewals instead."""


def expiry() -> dict[str, str]:
    return {"s3.session-token-expires-at-ms": str(int((time.time() + LIFE) * 1000))}


def new_credentials() -> dict[str, Any]:
    keys = {"s3.access-key-id": f"{NEW_KEY}1", "s3.secret-access-key": "new", "s3.session-token": "new"}
    return {"storage-credentials": [{"prefix": "s3://", "config": {**keys, **expiry()}}]}


@contextmanager
def renewing(uri: str) -> Iterator[RenewingCatalog]:
    """In front of the catalog at ``uri``."""
    upstream, _, path = uri.removeprefix("http://").partition("/")
    catalog = RenewingCatalog(path=path)
    given = {"catalog": catalog, "upstream": f"http://{upstream}"}
    handler = type("RenewingHandler", (Handler,), given)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        catalog.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield catalog
        finally:
            server.shutdown()
            thread.join(10)
