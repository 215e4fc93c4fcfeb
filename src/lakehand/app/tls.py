# SPDX-License-Identifier: Apache-2.0
"""HTTPS: the certificate and its key, and how a connection becomes HTTP after its handshake.

The files are loaded at start, and again when one of them changes. A connection is counted and bounded from its first
moment: the event loop could do the handshake by itself, but then nobody would know of a connection before its handshake
has ended, and clients that never begin one would be neither counted nor cut off in time.
"""

import asyncio
import logging
import ssl
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from lakehand.app.bounded_http import BoundedHttp, Connections, Wait, client_group
from lakehand.domain.errors import Invalid

log = logging.getLogger(__name__)
CHECK_INTERVAL = 2.0  # seconds between two readings of the files
LARGEST_FILE = 1024 * 1024  # bytes of a file

Contents = tuple[bytes, bytes]  # of the certificate with its chain, and of the key; both in PEM

HSTS = ("Strict-Transport-Security", f"max-age={30 * 86400}")  # browsers come back with HTTPS only
HANDSHAKE_RECORD = b"\x16"  # the first byte of TLS
ADVICE = b"this is the port of an HTTPS server: use https://\n"
NOT_HTTPS = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatePair:
    certificate: bytes
    key: bytes = field(repr=False)
    context: ssl.SSLContext
    version: int  # counts the pairs that were used


class Certificates:
    """As a context, it keeps reading the files. A pair that cannot be used changes nothing."""

    def __init__(self, certificate: Path, key: Path, *, interval: float = CHECK_INTERVAL) -> None:
        """Raises Invalid with the file and what to do."""
        self._certificate, self._key, self._interval = certificate, key, interval
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep_reading, name="certificates", daemon=True)
        self._seen: Contents | str = self._read()  # or why they could not be read
        self._current = self._load(self._seen, version=1)
        if key.stat().st_mode & stat.S_IROTH:
            log.warning("other users may read the TLS key: chmod o-r %s", quote(str(key)))

    @property
    def current(self) -> CertificatePair:
        return self._current

    @property
    def version(self) -> int:
        return self._current.version

    def pem(self) -> tuple[bytes, bytes]:
        """The key, and the certificate with its chain."""
        return self._current.key, self._current.certificate

    def __enter__(self) -> "Certificates":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _keep_reading(self) -> None:
        while not self._is_over.wait(self._interval):
            try:
                self.reload()
            except Exception:
                log.exception("the TLS certificate could not be read again")

    def reload(self) -> bool:
        """Use a changed pair from now on; True if there is one. Connections that are open keep theirs."""
        try:
            seen: Contents | str = self._read()
        except Invalid as error:
            seen = str(error)
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            if isinstance(seen, str):
                raise Invalid(seen)
            self._current = self._load(seen, version=self._current.version + 1)
        except Invalid as error:
            log.warning("the TLS certificate has changed and cannot be used; the old one is kept: %s", error)
            return False
        log.info("a changed TLS certificate is used", extra={"file": str(self._certificate)})
        return True

    def _read(self) -> Contents:
        return read_pem(self._certificate, "tls_certificate"), read_pem(self._key, "tls_key")

    def _load(self, contents: Contents, *, version: int) -> CertificatePair:
        check_pair(contents, self._certificate, self._key)
        context = server_context()
        try:
            context.load_cert_chain(self._certificate, self._key, password=no_password)
        except (OSError, ValueError) as error:
            raise Invalid(f"tls_certificate: {self._certificate} cannot be used: {error}") from None
        if self._read() != contents:
            raise Invalid(f"{self._certificate} or {self._key} changed while it was read: try again")
        return CertificatePair(certificate=contents[0], key=contents[1], context=context, version=version)


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def no_password() -> str:
    """Without it, OpenSSL would ask on the terminal."""
    raise ValueError("the key is encrypted")


def read_pem(file: Path, setting: str) -> bytes:
    try:
        with file.open("rb") as content:
            found = content.read(LARGEST_FILE + 1)
    except OSError as error:
        raise Invalid(
            f"{setting}: {file} cannot be read ({error.strerror}): make it readable for the user of the service, "
            "or name another file"
        ) from None
    if len(found) > LARGEST_FILE:
        raise Invalid(f"{setting}: {file} is larger than {LARGEST_FILE} bytes: name a file in PEM")
    return found


def check_pair(contents: Contents, certificate: Path, key: Path) -> None:
    """Raise unless they are a certificate and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        leaf = x509.load_pem_x509_certificates(contents[0])[0]
    except ValueError:
        raise Invalid(
            f"tls_certificate: {certificate} holds no certificate in PEM: it must begin with the service's own, "
            "followed by its chain"
        ) from None
    try:
        private = load_pem_private_key(contents[1], password=None)
    except TypeError:
        raise Invalid(
            f"tls_key: {key} is encrypted: write the key without a password (openssl pkey -in KEY -out FILE), "
            "for the user of the service alone"
        ) from None
    except ValueError:
        raise Invalid(f"tls_key: {key} holds no private key in PEM: name the file of the certificate's key") from None
    if private.public_key() != leaf.public_key():
        raise Invalid(f"tls_key: {key} is not the key of {certificate}: name a certificate and its own key")


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
