# SPDX-License-Identifier: Apache-2.0
"""Who asks, and what a role may do."""

from dataclasses import dataclass

from lakehand.domain.errors import Forbidden
from lakehand.domain.words import Word

ANONYMOUS = "anonymous"
# Names that events use for requests without a token. Plugins allow the coordinator less than a person.
RESERVED = frozenset({ANONYMOUS, "api", "callback", "coordinator", "lakehand", "wire", "writer"})


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
