# SPDX-License-Identifier: Apache-2.0
"""The public keys of an issuer: where it publishes them, how they are read within bounds, and how long they are kept.

They are read again when they are old, or when a token names an unknown one.
"""

import ipaddress
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from lakehand.domain.errors import LakehandError, Unavailable

log = logging.getLogger(__name__)
STEP_TIMEOUT = 5.0  # seconds to connect, and to wait for each part of an answer
LONGEST_TIME = 10.0  # seconds for a whole answer
LARGEST = 512 * 1024  # bytes
DISCOVERY = "/.well-known/openid-configuration"
# Algorithm → type of its keys. All have a public key: with a shared secret, whoever verifies could also sign.
ALGORITHMS = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP",
}  # fmt: skip
PAUSE = 30.0  # seconds between two readings, at least
FRESH = 600.0  # seconds until keys are read again in the background
LONGEST_WAIT = 12.0  # seconds that a token with an unknown key waits for a reading
MOST_KEYS = 100


class Documents:
    """Follows no redirect, and uses the proxy of the environment."""

    def __init__(
        self, *, verify: ssl.SSLContext | None = None, step: float = STEP_TIMEOUT, longest: float = LONGEST_TIME
    ) -> None:
        self._http = httpx.Client(timeout=step, follow_redirects=False, verify=verify or ssl.create_default_context())
        self._longest = longest

    def read(self, url: str) -> dict[str, Any]:
        """Raises Unavailable with the reason."""
        try:
            document = json.loads(self._content(url))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{url} cannot be read: {str(error) or type(error).__name__}") from None
        except (ValueError, RecursionError):
            raise Unavailable(f"{url} did not answer with JSON") from None
        if not isinstance(document, dict):
            raise Unavailable(f"{url} did not answer with a JSON object")
        return document

    def _content(self, url: str) -> bytes:
        deadline, content = time.monotonic() + self._longest, b""
        # Not compressed: a small answer could become a large one.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        with self._http.stream("GET", url, headers=headers) as answer:
            if answer.status_code != 200:
                raise Unavailable(f"{url} answered {answer.status_code}")
            for part in answer.iter_raw():
                content += part
                if len(content) > LARGEST:
                    raise Unavailable(f"the answer of {url} is larger than {LARGEST} bytes")
                if time.monotonic() > deadline:
                    raise Unavailable(f"{url} did not answer within {self._longest:.0f} s")
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    url: str  # exactly as its tokens name it
    documents: Documents
    jwks_url: str = ""  # empty: the issuer's own configuration names it

    def read_keys(self) -> Sequence[Any]:
        """Its JSON web keys, unchecked. Raises Unavailable with the reason."""
        url = self.jwks_url or self.find_jwks_url()
        keys = self.documents.read(url).get("keys")
        if not isinstance(keys, list):
            raise Unavailable(f"{url} names no keys")
        return keys

    def find_jwks_url(self) -> str:
        address = self.url.rstrip("/") + DISCOVERY
        found = self.documents.read(address)
        if found.get("issuer") != self.url:
            raise Unavailable(f"{address} is of another issuer: the setting must be spelled exactly as it is there")
        url = found.get("jwks_uri")
        if not isinstance(url, str) or not is_safe(url):
            raise Unavailable(f"{address} names no jwks_uri with https")
        return url


def is_safe(url: str) -> bool:
    """True for https, and for http on this machine: keys that somebody may exchange on their way prove nothing."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    id: str | None
    by_algorithm: Mapping[str, PyJWK]  # all that it can be used with

    def fits(self, id: str | None, algorithm: str) -> bool:
        return (id is None or self.id == id) and algorithm in self.by_algorithm


class IssuerKeys:
    """One reading at a time, in a thread of its own. Whoever asks meanwhile gets what is known."""

    def __init__(self, read: Callable[[], Sequence[Any]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: tuple[Key, ...] = ()
        self._read_at = self._began_at = float("-inf")
        self._is_reading = False
        self._has_failed = False

    def find(self, id: str | None, algorithm: str) -> PyJWK | None:
        """The key of a token. Without an id, the only key that fits."""
        found = self._known(id, algorithm)
        if found is None or self._clock() - self._read_at > FRESH:
            done = self.read_again()
            if found is None and done is not None:
                done.wait(LONGEST_WAIT)
                found = self._known(id, algorithm)
        return found.by_algorithm[algorithm] if found else None

    def _known(self, id: str | None, algorithm: str) -> Key | None:
        fitting = [key for key in self._keys if key.fits(id, algorithm)]
        return fitting[0] if len(fitting) == 1 else None

    def read_again(self) -> threading.Event | None:
        """Start a reading and return what is set at its end; None if one runs, or the last began a moment ago."""
        with self._lock:
            if self._is_reading or self._clock() - self._began_at < PAUSE:
                return None
            self._is_reading, self._began_at = True, self._clock()
        done = threading.Event()
        threading.Thread(target=self._replace, args=(done,), name="oidc-keys", daemon=True).start()
        return done

    def _replace(self, done: threading.Event) -> None:
        try:
            self._keys = usable(self._read())
            self._read_at, self._has_failed = self._clock(), False
        except Exception as error:
            self._note_failure(error)
        finally:
            self._is_reading = False
            done.set()

    def _note_failure(self, error: Exception) -> None:
        level = logging.DEBUG if self._has_failed else logging.WARNING
        self._has_failed = True
        reason = str(error) if isinstance(error, LakehandError) else f"{type(error).__name__}: {error}"
        log.log(level, "the issuer's keys cannot be read; known keys stay valid", extra={"reason": reason})


def usable(documents: Sequence[Any]) -> tuple[Key, ...]:
    """The public signing keys among them. Raises Unavailable if there are none."""
    keys = tuple(key for one in documents[:MOST_KEYS] if (key := key_of(one)) is not None)
    if not keys:
        raise Unavailable("the issuer publishes no key that can be used")
    return keys


def key_of(jwk: Any) -> Key | None:
    """None for keys of no use here: for encryption, shared secrets, private ones, malformed ones."""
    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig" or "d" in jwk:
        return None
    key_id, algorithm = jwk.get("kid"), jwk.get("alg")
    names = [name for name, kind in ALGORITHMS.items() if kind == jwk.get("kty") and algorithm in (None, name)]
    by_algorithm = {name: key for name in names if (key := public_key(jwk, name)) is not None}
    return Key(id=key_id, by_algorithm=by_algorithm) if by_algorithm and isinstance(key_id, str | None) else None


def public_key(jwk: dict[str, Any], algorithm: str) -> PyJWK | None:
    try:
        key = PyJWK(jwk, algorithm)
        key.Algorithm.prepare_key(key.key)  # checks the curve
    except (PyJWTError, ValueError, TypeError):
        return None
    return key
