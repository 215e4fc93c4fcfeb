# SPDX-License-Identifier: Apache-2.0
"""HTTPS: a connection is counted and bounded from its first moment, and becomes HTTP after its handshake.

The event loop could do the handshake by itself, but then nobody would know of a connection before its handshake has
ended: clients that never begin one would be neither counted nor cut off in time.
"""

import asyncio
import logging
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from lakehand.app.bounded_http import BoundedHttp, Connections, Wait, client_group
from lakehand.app.certificates import Certificates

log = logging.getLogger(__name__)
HSTS = ("Strict-Transport-Security", f"max-age={30 * 86400}")  # browsers come back with HTTPS only
HANDSHAKE_RECORD = b"\x16"  # the first byte of TLS
ADVICE = b"this is the port of an HTTPS server: use https://\n"
NOT_HTTPS = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"


def bounded_https(http: type[BoundedHttp], certificates: Certificates) -> "type[Handshake]":
    """The protocol class of a server with this certificate."""

    class BoundHandshake(Handshake):
        http_class = http
        certificates_of_server = certificates

    return BoundHandshake


class Handshake(asyncio.Protocol):
    """A connection until its handshake has ended: one of the server's connections, as those that follow."""

    http_class: type[BoundedHttp]
    certificates_of_server: Certificates
    group = ""
    _transport: asyncio.Transport
    _task: asyncio.Task[None] | None = None

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None) -> None:
        self._http = self.http_class(config, server_state, app_state, _loop)
        self._open: set[Any] = server_state.connections  # the server ends all in it when it stops
        self._early = b""  # before the handshake, and then what came together with its end

    @property
    def _connections(self) -> Connections:
        return self.http_class.connections_of_server

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.group = client_group(str(peer[0]) if peer else "")
        self._connections.start(self._http.loop)
        if self._connections.admit(self, Wait.HANDSHAKE):
            self._open.add(self)
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        self._early += data
        if self._task is None and not data.startswith(HANDSHAKE_RECORD):
            self._transport.write(NOT_HTTPS % (len(ADVICE), ADVICE))
            self._transport.close()
        elif self._task is None:
            self._transport.pause_reading()
            self._task = self._http.loop.create_task(self._shake_hands())

    async def _shake_hands(self) -> None:
        secure = await self._secured()
        if secure is None or secure.is_closing():
            self.cut()
        else:
            self._hand_over(secure)

    async def _secured(self) -> asyncio.Transport | None:
        if self._transport.is_closing():
            return None
        context = self.certificates_of_server.current.context
        securing = self._http.loop.create_task(
            self._http.loop.start_tls(self._transport, self, context, server_side=True)
        )
        try:
            await self._feed_first_bytes()
            return await securing
        except (OSError, RuntimeError) as error:  # also if it is cut meanwhile
            log.debug("a TLS handshake failed", extra={"client": self.group, "error": str(error)})
            return None

    async def _feed_first_bytes(self) -> None:
        """What was read before TLS took over the transport."""
        await asyncio.sleep(0)  # TLS takes over
        await asyncio.sleep(0)  # TLS begins
        protocol: Any = self._transport.get_protocol()  # a buffered one
        first, self._early = self._early, b""
        while first and protocol is not self and not self._transport.is_closing():
            buffer = protocol.get_buffer(len(first))
            size = min(len(buffer), len(first))
            buffer[:size], first = first[:size], first[size:]
            protocol.buffer_updated(size)

    def _hand_over(self, secure: asyncio.Transport) -> None:
        self._forget()
        secure.set_protocol(self._http)
        self._http.connection_made(secure)
        if self._early:
            self._http.data_received(self._early)

    def _forget(self) -> None:
        self._open.discard(self)
        self._connections.lost(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def give_up(self, wait: Wait) -> None:
        self.cut()

    def cut(self) -> None:
        self._transport.abort()
        self._forget()

    def shutdown(self) -> None:
        """The server stops."""
        self.cut()
