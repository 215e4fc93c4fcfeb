# SPDX-License-Identifier: Apache-2.0
"""Receivers for tests: an HTTP server that keeps what it gets, and a mail server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.kit.ports import quiet_port


@dataclass
class HttpReceiver:
    """Answers with ``status``; ``gate`` lets requests wait."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self.requests]


@contextmanager
def http_receiver() -> Iterator[HttpReceiver]:
    receiver = HttpReceiver()
    receiver.gate.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.gate.wait(60)
            if 200 <= receiver.status < 300:
                receiver.requests.append((dict(self.headers), body))
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *values: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield receiver
    finally:
        receiver.gate.set()
        server.shutdown()
        server.server_close()


class Mails:
    """Keeps the mails that the server was given."""

    def __init__(self) -> None:
        self.envelopes: list[Any] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        self.envelopes.append(envelope)
        return "250 taken"


@contextmanager
def mail_server() -> Iterator[tuple[Mails, int]]:
    from aiosmtpd.controller import Controller

    mails, port = Mails(), quiet_port()
    controller = Controller(mails, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield mails, port
    finally:
        controller.stop()
