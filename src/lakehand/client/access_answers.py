# SPDX-License-Identifier: Apache-2.0
"""Who may do what, and who asked for what."""

from dataclasses import dataclass, field
from datetime import datetime

from lakehand.api.fields import Answer
from lakehand.client.documents import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller(Answer):
    name: str
    role: str
    owner: str  # it may only touch the tables of this owner; empty: of all
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Answer):
    id: int
    name: str
    role: str
    owner: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken(Token):
    secret: str = field(repr=False)  # shown only once


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Answer):
    id: int
    at: datetime
    caller: str
    role: str
    owner: str
    address: str
    via: str  # the interface
    action: str
    subject: str
    table: int | None
    operation: int | None
    detail: Document  # what was given
    before: Document
    answer: str | None  # ok, or the code of the error; None: not known
    message: str  # why it was refused
    after: Document
    answered_at: datetime | None
