# SPDX-License-Identifier: Apache-2.0
"""The route of the audit trail: who asked for what, newest first."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import Self

from lakehand.core.ports import AuditFilter
from lakehand.domain.access import AuditEntry, Role
from lakehand.inputs.access import AuditQuery
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import Answer, Document, Moment, PageAnswer, fields_of

router = APIRouter(prefix="/api/v1/audit", tags=["access"])


class AuditEntryAnswer(Answer):
    id: int
    at: Moment
    caller: str
    role: Role
    owner: str = Field(description="The owner that the caller's token is bound to; empty: none.")
    address: str
    via: str = Field(description="The interface: rest, grpc, dashboard or local.")
    action: str = Field(examples=["table.pause"])
    subject: str
    table: int | None
    operation: int | None
    detail: Document = Field(description="What was given.")
    before: Document
    answer: str | None = Field(description="`ok`, or the code of the error; null: not known.")
    message: str = Field(description="Why it was refused.")
    after: Document
    answered_at: Moment | None

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        asked, answer = entry.request, entry.answer
        values: dict[str, Any] = fields_of(asked.caller, asked, entry)
        values |= {"caller": asked.caller.name, "answer": answer.code if answer else None}
        values |= {"message": answer.message if answer else "", "after": dict(answer.after) if answer else {}}
        return cls(**values)


@router.get("")
def list_audit(query: Annotated[AuditQuery, Query()], context: Context, caller: Caller) -> PageAnswer[AuditEntryAnswer]:
    """The audit trail, newest first. For operators and admins."""
    wanted = AuditFilter(**query.filters())
    page = context.requests.list_audit(caller, wanted, limit=query.limit, cursor=query.cursor)
    return PageAnswer(items=[AuditEntryAnswer.of(entry) for entry in page.items], next=page.next)
