# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the service: it keeps each request as it came and answers like the service should."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.hudi_client.recorded import RecordedRequest

ANSWER = b'{"status":"ok"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    uri: str
    requests: list[RecordedRequest] = field(default_factory=list)

    @property
    def callback(self) -> str:
        return f"{self.uri}/v1/hoodie/service/callback"

    def sent_to(self, name: str) -> list[RecordedRequest]:
        return [request for request in self.requests if request.path == f"/v1/hoodie/service/{name}"]


@contextmanager
def recording() -> Iterator[Recorder]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            headers = tuple(self.headers.items())
            recorder.requests.append(RecordedRequest(method=self.command, target=self.path, headers=headers, body=body))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        do_GET = do_POST = answer  # noqa: N815 - the standard library asks for these names

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        recorder = Recorder(uri=f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield recorder
        finally:
            server.shutdown()
            thread.join()
