# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of an S3 server: counts what clients ask for, and makes storage slow, busy or silent on request."""

import http.client
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})
BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
LIST = "LIST"
CONDITIONS = ("If-None-Match", "If-Match")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    kind: str  # the HTTP method, or LIST
    key: str  # bucket and key, or bucket and prefix
    status: int


@dataclass(kw_only=True)
class Fault:
    """What happens to the next ``times`` requests whose kind and key fit."""

    # "busy": 503 SlowDown; "silent": no answer; "lose": carried out, and the connection ends unanswered;
    # "slow": carried out later, or as soon as another one for the same key is there
    do: str
    kind: str = ""  # empty: any
    key: str = ""  # part of the key
    pattern: str = ""  # found in the key
    times: int = 1
    seconds: float = 0.0  # how long a silent one lasts, or a slow one is held at most

    def fits(self, kind: str, key: str) -> bool:
        is_named = self.key in key and re.search(self.pattern, key) is not None
        return self.times > 0 and self.kind in ("", kind) and is_named


@dataclass
class Proxy:
    endpoint: str
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _held: dict[str, threading.Event] = field(default_factory=dict)  # by key
    # moto looks and then writes: on a busy machine two conditional puts of one key have both succeeded. S3 lets one.
    conditional: threading.Lock = field(default_factory=threading.Lock)

    def add(self, fault: Fault) -> Fault:
        self.faults.append(fault)
        return fault

    def take_fault(self, kind: str, key: str) -> Fault | None:
        with self._lock:
            found = next((one for one in self.faults if one.fits(kind, key)), None)
            if found is not None:
                found.times -= 1
            return found

    def hold(self, key: str, seconds: float) -> None:
        """Until a rival for the key is there, which goes on at once."""
        with self._lock:
            first, own = self._held.pop(key, None), threading.Event()
            if first is None:
                self._held[key] = own
        if first is not None:
            first.set()
        elif not own.wait(seconds):
            with self._lock:
                if self._held.get(key) is own:
                    del self._held[key]

    def note(self, kind: str, key: str, status: int) -> None:
        with self._lock:
            self.requests.append(Request(kind=kind, key=key, status=status))

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """The requests by kind, while the block runs; complete after it."""
        before, found = len(self.requests), Counter[str]()
        yield found
        found.update(one.kind for one in self.requests[before:])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is written in two parts
    proxy: Proxy
    upstream: str  # host and port

    def carry(self) -> None:
        kind, key = described(self.command, self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.proxy.take_fault(kind, key)
        if fault is not None and fault.do == "silent":
            time.sleep(fault.seconds)
            self.end_unanswered(kind, key)
        elif fault is not None and fault.do == "busy":
            self.answer(kind, key, 503, [("Content-Type", "application/xml")], BUSY)
        else:
            if fault is not None and fault.do == "slow":
                self.proxy.hold(key, fault.seconds)
            is_conditional = self.command == "PUT" and any(name in self.headers for name in CONDITIONS)
            with self.proxy.conditional if is_conditional else nullcontext():
                status, headers, data = self.forward(body)
            if fault is not None and fault.do == "lose":
                self.end_unanswered(kind, key)
            else:
                self.answer(kind, key, status, headers, data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = carry  # noqa: N815 - the names of the standard library

    def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.upstream, timeout=120)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            connection.request(self.command, self.path, body=body or None, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def answer(self, kind: str, key: str, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.proxy.note(kind, key, status)
        self.send_response_only(status)
        size = next((value for name, value in headers if name.lower() == "content-length"), str(len(data)))
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", size if self.command == "HEAD" and status < 300 else str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def end_unanswered(self, kind: str, key: str) -> None:
        self.proxy.note(kind, key, 0)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Tests read the requests instead."""


class ProxyServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may close a connection whenever it likes."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def described(method: str, path: str) -> tuple[str, str]:
    """A GET of a bucket is a listing."""
    parts = urlsplit(path)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    if method == "GET" and not key:
        return LIST, f"{bucket}/{parse_qs(parts.query).get('prefix', [''])[0]}"
    return method, f"{bucket}/{key}"


@contextmanager
def s3_proxy(endpoint: str) -> Iterator[Proxy]:
    proxy = Proxy("")
    handler = type("ProxyHandler", (Handler,), {"proxy": proxy, "upstream": endpoint.removeprefix("http://")})
    with ProxyServer(("127.0.0.1", 0), handler) as server:
        proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join(10)
