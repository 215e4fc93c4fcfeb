# SPDX-License-Identifier: Apache-2.0
"""The audit trail in SQL: a row for the request, and another one for its answer. None is ever changed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from lakehand.core.ports import AuditFilter, Page
from lakehand.domain.access import Caller, Role
from lakehand.domain.audit import AuditAnswer, AuditEntry, AuditId, AuditRequest
from lakehand.store.clock import to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.documents import from_document, storable_text, to_document
from lakehand.store.paging import read_page
from lakehand.store.schema import audit_answer, audit_request

r, a = audit_request.c, audit_answer.c
LONGEST = 250


@dataclass(frozen=True, slots=True)
class SqlAudit:
    database: Database

    def begin(self, request: AuditRequest, *, now: datetime) -> AuditId:
        row = to_row(request) | {"audit_time": to_millis(now)}

        def write(tx: Connection) -> AuditId:
            key = tx.execute(insert(audit_request).values(row)).inserted_primary_key
            assert key is not None
            return AuditId(key[0])

        return self.database.write(write)

    def finish(self, id: AuditId, answer: AuditAnswer, *, now: datetime) -> None:
        row = {
            "audit_id": id, "answer_time": to_millis(now), "code": answer.code,
            "message": storable_text(answer.message), "after_state": to_document(answer.after),
        }  # fmt: skip
        self.database.write(lambda tx: tx.execute(insert(audit_answer).values(row)))

    def list(self, wanted: AuditFilter, *, limit: int, cursor: str | None) -> Page[AuditEntry]:
        joined = audit_request.outerjoin(audit_answer, r.audit_id == a.audit_id)
        query = select(audit_request, a.answer_time, a.code, a.message, a.after_state).select_from(joined)
        same = {r.caller: wanted.caller, r.tbl_id: wanted.table, r.operation_id: wanted.operation}
        query = query.where(*(column == value for column, value in same.items() if value is not None))
        if wanted.action is not None:
            is_prefix = wanted.action.endswith(".")
            query = query.where(
                r.action.startswith(wanted.action, autoescape=True) if is_prefix else r.action == wanted.action
            )
        return read_page(self.database, query, [r.audit_id], to_entry, limit=limit, cursor=cursor)

    def remove_before(self, before: datetime, *, limit: int) -> int:
        old = select(r.audit_id).where(r.audit_time < to_millis(before)).order_by(r.audit_time).limit(limit)

        def remove(tx: Connection) -> int:
            ids = tx.scalars(old).all()
            tx.execute(delete(audit_answer).where(a.audit_id.in_(ids)))
            return tx.execute(delete(audit_request).where(r.audit_id.in_(ids))).rowcount

        return self.database.write(remove)


def to_row(request: AuditRequest) -> dict[str, Any]:
    caller = request.caller
    return {
        "caller": storable_text(caller.name)[:LONGEST], "owner": caller.owner[:LONGEST],
        "address": storable_text(caller.address)[:LONGEST], "role": str(caller.role), "via": caller.via,
        "action": request.action, "subject": storable_text(request.subject), "tbl_id": request.table,
        "operation_id": request.operation, "detail": to_document(request.detail),
        "before_state": to_document(request.before),
    }  # fmt: skip


def to_entry(row: Row[Any]) -> AuditEntry:
    caller = Caller(name=row.caller, role=Role(row.role), owner=row.owner, address=row.address, via=row.via)
    request = AuditRequest(
        caller=caller, action=row.action, subject=row.subject, table=row.tbl_id, operation=row.operation_id,
        detail=from_document(row.detail), before=from_document(row.before_state),
    )  # fmt: skip
    if row.answer_time is None:
        return AuditEntry(id=row.audit_id, at=to_time(row.audit_time), request=request, answer=None)
    answer = AuditAnswer(code=row.code, message=row.message, after=from_document(row.after_state))
    return AuditEntry(
        id=row.audit_id, at=to_time(row.audit_time), request=request, answer=answer,
        answered_at=to_time(row.answer_time),
    )  # fmt: skip
