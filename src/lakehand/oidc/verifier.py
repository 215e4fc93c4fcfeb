# SPDX-License-Identifier: Apache-2.0
"""Verifies bearer tokens that are JSON web tokens of one issuer.

What their claims mean here: a name, a role, an owner.
"""

import logging
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jwt

from lakehand.core.ports import Verified
from lakehand.domain.access import Caller, Role
from lakehand.domain.errors import Unauthorized
from lakehand.domain.texts import visible
from lakehand.oidc.keys import ALGORITHMS, IssuerKeys

log = logging.getLogger(__name__)
NAMES = ("preferred_username", "email", "sub")  # the first that a token has
LONGEST_NAME = 128
LONGEST_OWNER = 250  # as of a table
LONGEST = 8192  # characters of a token
LATEST = 253_402_300_799.0  # the end of the year 9999: what a date can hold
LEEWAY = 30.0  # seconds by which clocks may differ
NEEDED = ["exp", "iss", "aud"]
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """Which claims are read, and which of their values give a role."""

    roles: Mapping[str, Role] = field(default_factory=dict)  # a value of the claim → the role here
    roles_claim: str = "roles"
    name_claim: str = ""  # empty: the first of NAMES
    owner_claim: str = ""  # empty: callers may touch the tables of all owners
    default_role: Role | None = None  # of a caller without any role; None: no access
    reserved: frozenset[str] = frozenset()  # names that nobody may have

    def caller(self, claims: Mapping[str, Any]) -> Caller:
        """Raises Unauthorized with the reason."""
        role = self.role(claims)
        return Caller(name=self.name(claims), role=role, owner=self.owner(claims, role))

    def role(self, claims: Mapping[str, Any]) -> Role:
        """The highest role that the token gives."""
        given = {self.roles[word] for word in words(claim(claims, self.roles_claim)) if word in self.roles}
        highest = max(given, key=list(Role).index, default=self.default_role)
        if highest is None:
            raise Unauthorized("none of its roles is in [oidc.roles]")
        return highest

    def name(self, claims: Mapping[str, Any]) -> str:
        name = claim(claims, self.name_claim) if self.name_claim else usual_name(claims)
        if not is_plain(name, LONGEST_NAME):
            raise Unauthorized("it has no name that can be shown")
        if unicodedata.normalize("NFKC", name).casefold() in self.reserved:
            raise Unauthorized("its name is reserved")
        return str(name)

    def owner(self, claims: Mapping[str, Any], role: Role) -> str:
        """An admin needs none. Anybody else without one is refused: no owner would mean all tables."""
        if not self.owner_claim:
            return ""
        owner = claim(claims, self.owner_claim)
        if owner is None and role is Role.ADMIN:
            return ""
        if not is_plain(owner, LONGEST_OWNER):
            raise Unauthorized(f"it has no owner in {self.owner_claim}")
        return str(owner)


def usual_name(claims: Mapping[str, Any]) -> Any:
    """An address that the issuer calls unverified is anybody's."""
    names = [name for name in NAMES if name != "email" or claims.get("email_verified", True) is True]
    return next((claims[name] for name in names if claims.get(name)), None)


def claim(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, which may have dots in it, or by the path to it, such as ``realm_access.roles``."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def words(value: Any) -> list[str]:
    """The words of a list, or of a text with spaces."""
    if isinstance(value, str):
        return value.split()
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def is_plain(text: Any, longest: int) -> bool:
    """True for a text without unseen characters and spaces around it."""
    if not isinstance(text, str) or not 0 < len(text) <= longest:
        return False
    return text.isprintable() and text == text.strip() and visible(text) == text


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
