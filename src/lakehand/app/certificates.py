# SPDX-License-Identifier: Apache-2.0
"""The certificate of the service and its key: loaded at start, and again when one of the files changes."""

import logging
import ssl
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from lakehand.domain.errors import Invalid

log = logging.getLogger(__name__)
CHECK_INTERVAL = 2.0  # seconds between two readings of the files
LARGEST = 1024 * 1024  # bytes of a file

Contents = tuple[bytes, bytes]  # of the certificate with its chain, and of the key; both in PEM


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
        return read(self._certificate, "tls_certificate"), read(self._key, "tls_key")

    def _load(self, contents: Contents, *, version: int) -> CertificatePair:
        check(contents, self._certificate, self._key)
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


def read(file: Path, setting: str) -> bytes:
    try:
        with file.open("rb") as content:
            found = content.read(LARGEST + 1)
    except OSError as error:
        raise Invalid(
            f"{setting}: {file} cannot be read ({error.strerror}): make it readable for the user of the service, "
            "or name another file"
        ) from None
    if len(found) > LARGEST:
        raise Invalid(f"{setting}: {file} is larger than {LARGEST} bytes: name a file in PEM")
    return found


def check(contents: Contents, certificate: Path, key: Path) -> None:
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
