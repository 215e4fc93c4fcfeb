# SPDX-License-Identifier: Apache-2.0
"""What admins ask of tokens, and who signs in."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from lakehand.core.services.access import AccessService
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.domain.access import RESERVED, AuditRequest, Caller, NewToken, Role, Token, TokenId, hash_of
from lakehand.domain.errors import Conflict, Invalid
from lakehand.domain.events import Event
from lakehand.domain.processes import Json

PREFIX = "lakehand_"  # so that people and scanners recognise one that leaked
MOST_VALID = 1000
LONGEST_LIFE = timedelta(days=3660)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class TokenRequests:
    access: AccessService
    audit: AuditTrail

    def create(
        self, caller: Caller, name: str, role: Role, *, owner: str = "", life: timedelta | None = None
    ) -> tuple[Token, str]:
        """A new token, and its secret, which is not stored and never shown again."""
        detail: dict[str, Json] = {"role": str(role), "owner": owner}
        detail |= {"seconds": life.total_seconds()} if life else {}
        request = AuditRequest(caller=caller, action="token.create", subject=name, detail=detail)
        with self.audit.record(request, lambda: need_admin(caller)) as outcome:
            self.check(name, role, owner, life)
            secret = PREFIX + secrets.token_urlsafe(32)
            now = self.access.store.clock.now()
            new = NewToken(
                name=name, role=role, owner=owner, hash=hash_of(secret), expires_at=now + life if life else None
            )
            token = self.access.store.tokens.add(new, by=caller.name, now=now)
            self.note(caller, "token.created", f"a token for {name} ({role}) was made by {caller.name}")
            outcome.after = {"token": token.id}
        return token, secret

    def check(self, name: str, role: Role, owner: str, life: timedelta | None) -> None:
        if not _NAME.fullmatch(name):
            raise Invalid("the name of a token may hold only letters, digits and ._@-, at most 64")
        if name.lower() in RESERVED:
            raise Invalid(f"{name} is reserved: events use it for the service itself; choose another name")
        if name in self.access.tokens:
            raise Conflict(f"the settings have a token {name}: choose another name, or take it out there")
        if role is Role.ADMIN and owner:
            raise Invalid("an admin makes tokens for everybody, so that its token cannot have an owner")
        if life is not None and not timedelta() < life <= LONGEST_LIFE:
            raise Invalid(f"a token lives at most {LONGEST_LIFE.days} days; leave it out for one that does not expire")
        now = self.access.store.clock.now()
        if sum(token.is_valid(now) for _, token in self.access.store.tokens.list()) >= MOST_VALID:
            raise Conflict(f"there are {MOST_VALID} valid tokens: revoke some first")

    def revoke(self, caller: Caller, id: TokenId) -> Token:
        token = self.access.store.tokens.get(id)
        request = AuditRequest(
            caller=caller, action="token.revoke", subject=token.name, detail={"token": id},
            before={"revoked": token.revoked_at is not None},
        )  # fmt: skip
        with self.audit.record(request, lambda: need_admin(caller)) as outcome:
            revoked = self.access.store.tokens.revoke(id, now=self.access.store.clock.now())
            self.note(caller, "token.revoked", f"token {id} of {token.name} was revoked by {caller.name}")
            outcome.after = {"revoked": True}
        return revoked

    def note(self, caller: Caller, kind: str, message: str) -> None:
        self.access.cache.forget()
        event = Event(kind=kind, message=message, detail={"by": caller.name})
        self.access.store.events.add([event], now=self.access.store.clock.now())

    def list(self, caller: Caller) -> Sequence[Token]:
        need_admin(caller)
        return [token for _, token in self.access.store.tokens.list()]

    def sign_in(self, secret: str, *, address: str) -> str | None:
        """The cookie of a new session of the dashboard; None if the token is not accepted."""
        found = self.access.sign_in(secret)
        if found is None:
            return None
        cookie, caller = found
        known = replace(caller, address=address, via="dashboard")
        with self.audit.record(AuditRequest(caller=known, action="session.start", subject=caller.name)):
            return cookie

    def sign_out(self, cookie: str, *, address: str) -> None:
        if self.access.is_open or (caller := self.access.session(cookie, address=address)) is None:
            return
        with self.audit.record(AuditRequest(caller=caller, action="session.end", subject=caller.name)):
            self.access.sign_out(cookie)


def need_admin(caller: Caller) -> None:
    caller.need(Role.ADMIN)
    caller.need_everything()
