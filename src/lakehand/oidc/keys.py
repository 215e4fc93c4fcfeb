# SPDX-License-Identifier: Apache-2.0
"""The public keys of an issuer: kept, and read again when they are old or a token names an unknown one."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from lakehand.domain.errors import LakehandError, Unavailable

log = logging.getLogger(__name__)
# Algorithm → type of its keys. All have a public key: with a shared secret, whoever verifies could also sign.
ALGORITHMS = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP",
}  # fmt: skip
PAUSE = 30.0  # seconds between two readings, at least
FRESH = 600.0  # seconds until keys are read again in the background
LONGEST_WAIT = 12.0  # seconds that a token with an unknown key waits for a reading
MOST_KEYS = 100


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
