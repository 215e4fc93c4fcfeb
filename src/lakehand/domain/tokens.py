# SPDX-License-Identifier: Apache-2.0
"""Tokens and sessions as they are stored: never the secret, only its hash."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import NewType

from lakehand.domain.access import Role

TokenId = NewType("TokenId", int)


def hash_of(secret: str) -> str:
    """Secrets are long and random, so that a fast hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    name: str
    role: Role
    owner: str = ""  # it may only touch tables of this owner; empty: of all
    expires_at: datetime | None = None
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Several may have one name, so that a new one can be given out before the old one is revoked."""

    id: TokenId
    name: str
    role: Role
    owner: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None  # about: written once a minute at most

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def state(self, now: datetime) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "valid" if self.is_valid(now) else "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSession:
    """Somebody who signed in to the dashboard; the cookie is stored as a hash."""

    name: str
    role: Role
    owner: str
    token: TokenId | None = None  # valid as long as this token
    seal: str = ""  # of a token from the settings: proves that it is still the same one
    ends_at: datetime
