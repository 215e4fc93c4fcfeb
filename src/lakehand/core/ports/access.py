# SPDX-License-Identifier: Apache-2.0
"""The ports of who may do what: tokens, sessions, and the audit trail."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lakehand.core.pages import Page
from lakehand.domain.audit import AuditAnswer, AuditEntry, AuditId, AuditRequest
from lakehand.domain.operations import OperationId
from lakehand.domain.tables import TableId
from lakehand.domain.tokens import NewToken, Token, TokenId, WebSession


class Tokens(Protocol):
    """Tokens are never deleted: a service that once had one stays closed."""

    def add(self, new: NewToken, *, by: str, now: datetime) -> Token: ...

    def list(self) -> Sequence[tuple[str, Token]]:
        """All, each with the hash of its secret; oldest first."""

    def get(self, id: TokenId) -> Token:
        """Raises NotFound."""

    def revoke(self, id: TokenId, *, now: datetime) -> Token:
        """Raises NotFound. One that is revoked already stays as it is."""

    def note_use(self, ids: Collection[TokenId], *, now: datetime) -> None: ...


class Sessions(Protocol):
    def add(self, hash: str, session: WebSession, *, now: datetime) -> None: ...

    def find(self, hash: str) -> WebSession | None:
        """One that has not been ended; it may have run out."""

    def end(self, hash: str) -> None: ...

    def remove_before(self, before: datetime) -> int:
        """Delete those that ran out before. Returns how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    caller: str | None = None
    action: str | None = None  # a whole action, or a prefix that ends in a dot
    table: TableId | None = None
    operation: OperationId | None = None


class Audit(Protocol):
    """Rows are added, and removed when they are old; none is ever changed."""

    def begin(self, request: AuditRequest, *, now: datetime) -> AuditId: ...

    def finish(self, id: AuditId, answer: AuditAnswer, *, now: datetime) -> None: ...

    def list(self, wanted: AuditFilter, *, limit: int, cursor: str | None) -> Page[AuditEntry]:
        """Newest first."""

    def remove_before(self, before: datetime, *, limit: int) -> int: ...
