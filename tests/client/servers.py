# SPDX-License-Identifier: Apache-2.0
"""A little HTTP server that does to each connection what a test says: answer, drop, or keep silent."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

DROP, SILENCE = "drop", "silence"


def answer(status: str = "200 OK", body: str = "{}", **headers: str) -> str:
    named = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in named.items())]
    return "\r\n".join(lines) + "\r\n\r\n" + body


class LittleServer:
    """Does the next thing of its script for each request; the last one for all that follow."""

    def __init__(self, *script: str, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.script = list(script)
        self.requests: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.listener.getsockname()[1]}"
        self.silent: list[socket.socket] = []

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with suppress(OSError):  # the client does not trust us
                self.handle(self.tls.wrap_socket(connection, server_side=True) if self.tls else connection)

    def handle(self, connection: socket.socket) -> None:
        request = connection.recv(65536).decode()
        if not request:
            connection.close()
            return
        self.requests.append(request.split("\r\n")[0])
        what = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if what == SILENCE:
            self.silent.append(connection)
            return
        if what != DROP:
            connection.sendall(what.encode())
        connection.close()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.silent:
            connection.close()


@contextmanager
def little_server(*script: str, tls: ssl.SSLContext | None = None) -> Iterator[LittleServer]:
    server = LittleServer(*script, tls=tls)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()
