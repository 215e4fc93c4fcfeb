# SPDX-License-Identifier: Apache-2.0
"""Verifies bearer tokens that are JSON web tokens of one issuer."""

import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

import jwt

from lakehand.core.ports import Verified
from lakehand.domain.errors import Unauthorized
from lakehand.oidc.claims import ClaimRules
from lakehand.oidc.keys import ALGORITHMS, IssuerKeys

log = logging.getLogger(__name__)
LONGEST = 8192  # characters of a token
LATEST = 253_402_300_799.0  # the end of the year 9999: what a date can hold
LEEWAY = 30.0  # seconds by which clocks may differ
NEEDED = ["exp", "iss", "aud"]
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class OidcVerifier:
    issuer: str
    audience: Collection[str]  # one of them must be in the token
    algorithms: Collection[str]
    keys: IssuerKeys
    rules: ClaimRules
    is_on: ClassVar[bool] = True

    def verify(self, text: str) -> Verified | None:
        """The caller of a token; None if it is not valid. Never raises."""
        if not looks_like_jwt(text):
            return None
        try:
            claims = self.claims(text)
            return Verified(caller=self.rules.caller(claims), ends_at=min(float(claims["exp"]), LATEST))
        except Unauthorized as error:
            reason = str(error)
        except Exception as error:  # of PyJWT, or whatever a hostile token makes a parser do
            reason = type(error).__name__
        log.debug("a bearer token was refused", extra={"reason": reason})
        return None

    def claims(self, text: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(text)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self.algorithms or algorithm not in ALGORITHMS:
            raise Unauthorized("its algorithm is not among those of the settings")
        key = self.keys.find(key_id, algorithm)
        if key is None:
            raise Unauthorized("the issuer has no such key")
        claims: dict[str, Any] = jwt.decode(
            text, key, algorithms=[algorithm], issuer=self.issuer, audience=list(self.audience), leeway=LEEWAY,
            options={"require": NEEDED, "enforce_minimum_key_length": True},
        )  # fmt: skip
        return claims


def looks_like_jwt(text: str) -> bool:
    """Three parts of base64url: any other token costs no more than this."""
    return len(text) <= LONGEST and _JWT.fullmatch(text) is not None
