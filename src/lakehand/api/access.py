# SPDX-License-Identifier: Apache-2.0
"""Requests and answers about who may do what: the caller, tokens, and the audit trail."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehand.api.fields import ID, STRICT, Answer, Document, Moment, Name, Paging, about, answer
from lakehand.domain.access import Role

if TYPE_CHECKING:
    from lakehand.domain.access import AuditEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    __pydantic_config__ = STRICT | {"json_schema_extra": {"examples": [{"name": "airflow", "role": "operator"}]}}

    name: Name = field(metadata=about("Several tokens may have one name: make the new one, then revoke the old one."))
    role: Role
    owner: Name = field(default="", metadata=about("It may only touch the tables of this owner; empty: of all."))
    life: float | None = field(
        default=None, metadata=about("Seconds; null: it does not expire.", gt=0, le=3660 * 86400)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery(Paging):
    caller: Name | None = None
    action: Name | None = field(
        default=None, metadata=about("A whole action, or a prefix that ends in a dot: `table.`.")
    )
    table: int | None = field(default=None, metadata=ID)
    operation: int | None = field(default=None, metadata=ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerAnswer(Answer):
    """Whose token this request has."""

    name: str
    role: Role
    owner: str = field(metadata=about("It may only touch the tables of this owner; empty: of all."))
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswer(Answer):
    """A token without its secret, which is not stored."""

    id: int
    name: str
    role: Role
    owner: str
    created_by: str
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    used_at: Moment | None = field(metadata=about("When it was last used, within a minute or so."))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTokenAnswer(TokenAnswer):
    secret: str = field(repr=False, metadata=about("Shown only once."))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensAnswer(Answer):
    items: list[TokenAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntryAnswer(Answer):
    id: int
    at: Moment
    caller: str
    role: Role
    owner: str = field(metadata=about("The owner that the caller's token is bound to; empty: none."))
    address: str
    via: str = field(metadata=about("The interface: rest, grpc, dashboard or local."))
    action: str = field(metadata=about(examples=["table.pause"]))
    subject: str
    table: int | None
    operation: int | None
    detail: Document = field(metadata=about("What was given."))
    before: Document
    answer: str | None = field(metadata=about("`ok`, or the code of the error; null: not known."))
    message: str = field(metadata=about("Why it was refused."))
    after: Document
    answered_at: Moment | None


def audit_answer(entry: "AuditEntry") -> AuditEntryAnswer:
    asked, given = entry.request, entry.answer
    return answer(
        AuditEntryAnswer, asked.caller, asked, entry, caller=asked.caller.name, answer=given.code if given else None,
        message=given.message if given else "", after=given.after if given else {},
    )  # fmt: skip
