# SPDX-License-Identifier: Apache-2.0
"""Who asks: recognises tokens of the settings, of the database and of an identity provider, and sessions.

Admins make and revoke those of the database here.
"""

import hmac
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from lakehand.api.access import NewTokenAnswer, TokenRequest
from lakehand.api.fields import answer, span
from lakehand.core.ports import NoVerifier, Store, TokenVerifier
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.domain.access import (
    ANONYMOUS,
    RESERVED,
    AuditRequest,
    Caller,
    NewToken,
    Role,
    Token,
    TokenId,
    WebSession,
    hash_of,
)
from lakehand.domain.cached_property import cached_property
from lakehand.domain.errors import Conflict, Invalid
from lakehand.domain.events import Event
from lakehand.domain.processes import Json

KEEP = 2.0  # seconds: so late is a revoked token refused by another instance
NOTE_USE = timedelta(minutes=1)
SESSION_LIFE = timedelta(hours=12)
LONGEST_SECRET = 8192  # characters: tokens of identity providers are long
PREFIX = "lakehand_"  # so that people and scanners recognise one that leaked
MOST_VALID = 1000
LONGEST_LIFE = timedelta(days=3660)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(kw_only=True)
class TokenCache:
    store: Store
    keep: float = KEEP
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _by_hash: Mapping[str, Token] = field(default_factory=dict)
    _read_at: float = float("-inf")
    _used: set[TokenId] = field(default_factory=set)

    def find(self, hash: str) -> Token | None:
        """The token, valid or not."""
        self.read()
        found = self._by_hash.get(hash)
        if found is not None:
            self._used.add(found.id)
        return found

    def by_id(self, id: TokenId) -> Token | None:
        self.read()
        return next((token for token in self._by_hash.values() if token.id == id), None)

    def remembered(self, hash: str, *, is_use: bool = False) -> Token | None:
        """As ``find``, without a query."""
        found = self._by_hash.get(hash)
        if found is not None and is_use:
            self._used.add(found.id)
        return found

    @property
    def is_fresh(self) -> bool:
        """Whether a question now takes no query."""
        return time.monotonic() - self._read_at < self.keep

    @property
    def was_empty(self) -> bool:
        """As ``is_empty``, without a query."""
        return not self._by_hash

    @property
    def is_empty(self) -> bool:
        """Whether no token was ever made."""
        self.read()
        return not self._by_hash

    def forget(self) -> None:
        """Read again at the next question."""
        self._read_at = float("-inf")

    def read(self) -> None:
        with self._lock:
            if self.is_fresh:
                return
            now = self.store.clock.estimate()
            self.note_use(now)
            self._by_hash = dict(self.store.tokens.list())
            self._read_at = time.monotonic()

    def note_use(self, now: datetime) -> None:
        used, self._used = self._used, set()
        due = [
            token.id
            for token in self._by_hash.values()
            if token.id in used and (token.used_at is None or now - token.used_at > NOTE_USE)
        ]
        if due:
            self.store.tokens.note_use(due, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A token that was accepted: whose it is, and how long a session may rest on it."""

    caller: Caller
    session: WebSession


@dataclass(frozen=True, kw_only=True)
class AccessService:
    store: Store
    audit: AuditTrail
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the settings: name → secret
    verifier: TokenVerifier = field(default_factory=NoVerifier)

    @cached_property
    def cache(self) -> TokenCache:
        return TokenCache(store=self.store)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The hash of each secret of the settings, and its name."""
        return {hash_of(secret): name for name, secret in self.tokens.items() if secret}

    @property
    def is_open(self) -> bool:
        """Whether no token is asked for: none was ever made. Revoking the last one does not open the service."""
        return not self.tokens and not self.verifier.is_on and self.cache.is_empty

    def caller(self, secret: str, *, address: str = "", via: str = "") -> Caller | None:
        """Who has this token; None if it is not accepted. Where no token is asked for, anybody is an admin."""
        if self.is_open:
            return Caller(name=ANONYMOUS, role=Role.ADMIN, address=address, via=via)
        found = self.credential(secret)
        return replace(found.caller, address=address, via=via) if found else None

    def remembered_caller(self, secret: str, *, address: str = "", via: str = "") -> Caller | None:
        """As ``caller``, from memory alone; None also if memory does not know it: then ask ``caller``, in a thread."""
        if not self.cache.is_fresh:
            return None
        if not self.tokens and not self.verifier.is_on and self.cache.was_empty:
            return Caller(name=ANONYMOUS, role=Role.ADMIN, address=address, via=via)
        digest = hash_of(secret)
        if name := self.names.get(digest):
            return Caller(name=name, role=Role.ADMIN, address=address, via=via)
        token = self.cache.remembered(digest, is_use=True)
        if token is None or not token.is_valid(self.store.clock.estimate()):
            return None
        return Caller(name=token.name, role=token.role, owner=token.owner, address=address, via=via)

    def remembers(self, secret: str) -> bool:
        """Whether this token is known to be valid, without a query: for answers while the database is away."""
        token = self.cache.remembered(hash_of(secret))
        return hash_of(secret) in self.names or (token is not None and token.is_valid(self.store.clock.estimate()))

    def credential(self, secret: str) -> Credential | None:
        if not secret or len(secret) > LONGEST_SECRET:
            return None
        now, digest = self.store.clock.estimate(), hash_of(secret)
        ends = now + SESSION_LIFE
        if name := self.names.get(digest):
            session = WebSession(name=name, role=Role.ADMIN, owner="", seal=secret, ends_at=ends)
            return Credential(caller=Caller(name=name, role=Role.ADMIN), session=session)
        if token := self.cache.find(digest):
            if not token.is_valid(now):
                return None
            session = WebSession(name=token.name, role=token.role, owner=token.owner, token=token.id, ends_at=ends)
            return Credential(caller=caller_of(session), session=session)
        return self.verified(secret, ends)

    def verified(self, secret: str, ends: datetime) -> Credential | None:
        """A token of the identity provider; a session does not outlive it."""
        if not self.verifier.is_on or (found := self.verifier.verify(secret)) is None:
            return None
        until = min(ends, datetime.fromtimestamp(found.ends_at, timezone.utc))
        caller = found.caller
        session = WebSession(name=caller.name, role=caller.role, owner=caller.owner, ends_at=until)
        return Credential(caller=caller, session=session)

    def sign_in(self, secret: str, *, address: str) -> str | None:
        """The cookie of a new session of the dashboard; None if the token is not accepted."""
        found = self.credential(secret)
        if found is None:
            return None
        cookie, session = secrets.token_urlsafe(32), found.session
        if session.seal:
            session = replace(session, seal=seal_of(cookie, secret))
        self.store.sessions.add(hash_of(cookie), session, now=self.store.clock.estimate())
        caller = replace(found.caller, address=address, via="dashboard")
        with self.audit.record(AuditRequest(caller=caller, action="session.start", subject=caller.name)):
            return cookie

    def session(self, cookie: str, *, address: str = "", via: str = "dashboard") -> Caller | None:
        """Whose session this is; None if it ended, or the token that it rests on is no longer valid."""
        if self.is_open:
            return Caller(name=ANONYMOUS, role=Role.ADMIN, address=address, via=via)
        found = self.store.sessions.find(hash_of(cookie)) if 0 < len(cookie) < 200 else None
        if found is None or not self.is_valid(cookie, found):
            return None
        return replace(caller_of(found), address=address, via=via)

    def is_valid(self, cookie: str, session: WebSession) -> bool:
        now = self.store.clock.estimate()
        if now >= session.ends_at:
            return False
        if session.seal:
            secret = self.tokens.get(session.name, "")
            return bool(secret) and hmac.compare_digest(session.seal, seal_of(cookie, secret))
        if session.token is not None:
            token = self.cache.by_id(session.token)
            return token is not None and token.is_valid(now)
        return self.verifier.is_on

    def sign_out(self, cookie: str, *, address: str) -> None:
        if self.is_open or (caller := self.session(cookie, address=address)) is None:
            return
        with self.audit.record(AuditRequest(caller=caller, action="session.end", subject=caller.name)):
            self.store.sessions.end(hash_of(cookie))

    def list_tokens(self, caller: Caller) -> Sequence[Token]:
        caller.need_for_all(Role.ADMIN)
        return [token for _, token in self.store.tokens.list()]

    def create_token(self, caller: Caller, wanted: TokenRequest) -> NewTokenAnswer:
        """A new token, and its secret, which is not stored and never shown again."""
        name, role, owner, life = wanted.name, Role(wanted.role), wanted.owner, span(wanted.life)
        detail: dict[str, Json] = {"role": str(role), "owner": owner}
        detail |= {"seconds": life.total_seconds()} if life else {}
        request = AuditRequest(caller=caller, action="token.create", subject=name, detail=detail)
        with self.audit.record(request, lambda: caller.need_for_all(Role.ADMIN)) as outcome:
            self.check_new(name, role, owner, life)
            secret, now = PREFIX + secrets.token_urlsafe(32), self.store.clock.now()
            ends = now + life if life else None
            new = NewToken(name=name, role=role, owner=owner, hash=hash_of(secret), expires_at=ends)
            token = self.store.tokens.add(new, by=caller.name, now=now)
            self.note(caller, "token.created", f"a token for {name} ({role}) was made by {caller.name}")
            outcome.after = {"token": token.id}
        return answer(NewTokenAnswer, token, secret=secret)

    def check_new(self, name: str, role: Role, owner: str, life: timedelta | None) -> None:
        if not _NAME.fullmatch(name):
            raise Invalid("the name of a token may hold only letters, digits and ._@-, at most 64")
        if name.lower() in RESERVED:
            raise Invalid(f"{name} is reserved: events use it for the service itself; choose another name")
        if name in self.tokens:
            raise Conflict(f"the settings have a token {name}: choose another name, or take it out there")
        if role is Role.ADMIN and owner:
            raise Invalid("an admin makes tokens for everybody, so that its token cannot have an owner")
        if life is not None and not timedelta() < life <= LONGEST_LIFE:
            raise Invalid(f"a token lives at most {LONGEST_LIFE.days} days; leave it out for one that does not expire")
        now = self.store.clock.now()
        if sum(token.is_valid(now) for _, token in self.store.tokens.list()) >= MOST_VALID:
            raise Conflict(f"there are {MOST_VALID} valid tokens: revoke some first")

    def revoke_token(self, caller: Caller, id: TokenId) -> Token:
        token = self.store.tokens.get(id)
        request = AuditRequest(
            caller=caller, action="token.revoke", subject=token.name, detail={"token": id},
            before={"revoked": token.revoked_at is not None},
        )  # fmt: skip
        with self.audit.record(request, lambda: caller.need_for_all(Role.ADMIN)) as outcome:
            revoked = self.store.tokens.revoke(id, now=self.store.clock.now())
            self.note(caller, "token.revoked", f"token {id} of {token.name} was revoked by {caller.name}")
            outcome.after = {"revoked": True}
        return revoked

    def note(self, caller: Caller, kind: str, message: str) -> None:
        self.cache.forget()
        event = Event(kind=kind, message=message, detail={"by": caller.name})
        self.store.events.add([event], now=self.store.clock.now())


def caller_of(session: WebSession) -> Caller:
    return Caller(name=session.name, role=session.role, owner=session.owner)


def seal_of(cookie: str, secret: str) -> str:
    """Stored with the session. It says nothing of the secret to whoever does not have the cookie."""
    return hmac.new(cookie.encode(), secret.encode(), "sha256").hexdigest()
