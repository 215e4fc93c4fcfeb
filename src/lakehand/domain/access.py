# SPDX-License-Identifier: Apache-2.0
"""Who asks, what a role may do, tokens and sessions as they are stored, and the audit trail.

Of tokens and sessions never the secret is stored, only its hash. The audit trail says who asked for what, from where,
what it changed, and what the answer was.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NewType

from lakehand.domain.errors import Forbidden
from lakehand.domain.operations import OperationId
from lakehand.domain.processes import Json
from lakehand.domain.tables import TableId
from lakehand.domain.texts import Word

ANONYMOUS = "anonymous"
# Names that events use for requests without a token. Plugins allow the coordinator less than a person.
RESERVED = frozenset({ANONYMOUS, "api", "callback", "coordinator", "lakehand", "wire", "writer"})
TokenId = NewType("TokenId", int)
AuditId = NewType("AuditId", int)
OK = "ok"


class Role(Word):
    """What a token is for. Each role may do what those before it may do."""

    VIEWER = "viewer"  # sees everything, changes nothing
    OPERATOR = "operator"  # runs, cancels and changes what tables need
    ADMIN = "admin"  # also makes tokens

    def includes(self, other: "Role") -> bool:
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody whose token was accepted, or anybody where no token is asked for."""

    name: str
    role: Role
    owner: str = ""  # it may only touch tables of this owner; empty: of all
    address: str = ""  # where the request came from
    via: str = ""  # the interface: rest, grpc, dashboard, local

    def can_change(self, owner: str) -> bool:
        """Whether it may change what belongs to this owner."""
        return self.role.includes(Role.OPERATOR) and self.owner in ("", owner)

    @property
    def can_change_all(self) -> bool:
        return self.role.includes(Role.OPERATOR) and not self.owner

    def need(self, role: Role) -> None:
        """Raise unless the caller has this role."""
        if not self.role.includes(role):
            raise Forbidden(f"{self.name} is {a(self.role)}, and this needs {a(role)}: use a token with that role")

    def need_owner(self, owner: str) -> None:
        """Raise unless the caller may touch what belongs to this owner."""
        if self.owner and self.owner != owner:
            raise Forbidden(
                f"the token {self.name} is for the tables of {self.owner}, and this belongs to {owner}: "
                "use a token of that owner, or one without an owner"
            )

    def need_for_all(self, role: Role) -> None:
        """Raise unless the caller has this role for the tables of all owners."""
        self.need(role)
        self.need_everything()

    def need_everything(self) -> None:
        """Raise for a token of one owner: what it asks for concerns others, too."""
        if self.owner:
            raise Forbidden(
                f"the token {self.name} is for the tables of {self.owner}, and this concerns all tables: "
                "use a token without an owner"
            )


def a(role: Role) -> str:
    return f"{'a' if role is Role.VIEWER else 'an'} {role}"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What somebody asked for. Stored before it is carried out."""

    caller: Caller
    action: str  # for instance "table.pause"
    subject: str  # the name of what it is about, for people
    table: TableId | None = None
    operation: OperationId | None = None
    detail: Mapping[str, Json] = field(default_factory=dict)  # what was given
    before: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAnswer:
    """What became of it."""

    code: str  # "ok", or the code of the error
    message: str = ""
    after: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    id: AuditId
    at: datetime
    request: AuditRequest
    answer: AuditAnswer | None  # None: not known, for instance because the process was killed meanwhile
    answered_at: datetime | None = None
