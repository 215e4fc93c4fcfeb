# SPDX-License-Identifier: Apache-2.0
"""Who looks at a page: a signed cookie says which token somebody signed in with.

The cookie is signed with the token itself, so that no session is stored, every instance accepts it, and it ends when
the token is removed from the settings.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

COOKIE = "lakehand-session"
LIFE = 12 * 3600  # seconds
ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)  # name → secret; none: everybody may do all
    now: Callable[[], float] = time.time

    @property
    def is_open(self) -> bool:
        """Whether no token is asked for."""
        return not self.tokens

    def sign_in(self, secret: str) -> str | None:
        """The value of the cookie for a valid token. Every token is compared, so that timing reveals nothing."""
        names = [name for name, own in self.tokens.items() if own and same(own, secret)]
        if not names:
            return None
        ends = str(int(self.now()) + LIFE)
        return ".".join((encode(names[0]), ends, self.signature(names[0], ends)))

    def caller(self, cookie: str) -> str | None:
        """The name of the token that this cookie was signed with; None if it is forged or has run out."""
        if self.is_open:
            return ANONYMOUS
        parts = cookie.split(".")
        name = decode(parts[0]) if len(parts) == 3 else None
        if name is None or not self.tokens.get(name):
            return None
        _, ends, signature = parts
        if not same(self.signature(name, ends), signature) or not ends.isascii() or not ends.isdigit():
            return None
        return name if int(ends) > self.now() else None

    def signature(self, name: str, ends: str) -> str:
        key = hashlib.sha256(b"lakehand-session\0" + self.tokens[name].encode()).digest()
        return hmac.new(key, f"{name}\0{ends}".encode(), hashlib.sha256).hexdigest()


def same(secret: str, given: str) -> bool:
    return hmac.compare_digest(secret.encode(), given.encode("utf-8", "replace"))


def encode(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode("ascii").rstrip("=")


def decode(text: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
