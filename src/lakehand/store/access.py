# SPDX-License-Identifier: Apache-2.0
"""Who asks, in SQL: tokens and sessions, as hashes and never as secrets, and the audit trail.

Of the audit trail, a row is the request and another one its answer. None is ever changed.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from lakehand.core.ports import AuditFilter, Page
from lakehand.domain.access import (
    AuditAnswer,
    AuditEntry,
    AuditId,
    AuditRequest,
    Caller,
    NewToken,
    Role,
    Token,
    TokenId,
    WebSession,
)
from lakehand.domain.errors import NotFound
from lakehand.store.clock import to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.documents import from_document, storable_text, to_document
from lakehand.store.paging import read_page
from lakehand.store.schema import api_token, audit_answer, audit_request, web_session

t = api_token.c
s = web_session.c
r, a = audit_request.c, audit_answer.c
LONGEST = 250


@dataclass(frozen=True, slots=True)
class SqlTokens:
    database: Database

    def add(self, new: NewToken, *, by: str, now: datetime) -> Token:
        row = {
            "name": new.name, "role": str(new.role), "owner": new.owner, "hash": new.hash, "create_by": by,
            "create_time": to_millis(now), "expire_time": None if new.expires_at is None else to_millis(new.expires_at),
        }  # fmt: skip

        def write(tx: Connection) -> Token:
            tx.execute(insert(api_token).values(row))
            return to_token(tx.execute(select(api_token).where(t.hash == new.hash)).one())

        return self.database.write(write)

    def list(self) -> Sequence[tuple[str, Token]]:
        rows = self.database.read(lambda tx: tx.execute(select(api_token).order_by(t.token_id)).all())
        return [(row.hash, to_token(row)) for row in rows]

    def get(self, id: TokenId) -> Token:
        return self.database.read(lambda tx: token_of(tx, id))

    def revoke(self, id: TokenId, *, now: datetime) -> Token:
        def write(tx: Connection) -> Token:
            is_valid = t.revoke_time.is_(None)
            tx.execute(update(api_token).where(t.token_id == id, is_valid).values(revoke_time=to_millis(now)))
            return token_of(tx, id)

        return self.database.write(write)

    def note_use(self, ids: Collection[TokenId], *, now: datetime) -> None:
        used = update(api_token).where(t.token_id.in_(sorted(ids))).values(use_time=to_millis(now))
        self.database.write(lambda tx: tx.execute(used))


def token_of(tx: Connection, id: TokenId) -> Token:
    row = tx.execute(select(api_token).where(t.token_id == id)).one_or_none()
    if row is None:
        raise NotFound(f"there is no token {id}: see lakehand tokens list")
    return to_token(row)


def to_token(row: Row[Any]) -> Token:
    times = {
        name: None if value is None else to_time(value)
        for name, value in (
            ("expires_at", row.expire_time), ("revoked_at", row.revoke_time), ("used_at", row.use_time)
        )
    }  # fmt: skip
    return Token(
        id=TokenId(row.token_id), name=row.name, role=Role(row.role), owner=row.owner, created_by=row.create_by,
        created_at=to_time(row.create_time), **times,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SqlSessions:
    database: Database

    def add(self, hash: str, session: WebSession, *, now: datetime) -> None:
        row = {
            "hash": hash, "name": session.name, "role": str(session.role), "owner": session.owner,
            "seal": session.seal, "token_id": session.token, "create_time": to_millis(now),
            "end_time": to_millis(session.ends_at),
        }  # fmt: skip
        self.database.write(lambda tx: tx.execute(insert(web_session).values(row)))

    def find(self, hash: str) -> WebSession | None:
        query = select(web_session).where(s.hash == hash)
        row = self.database.read(lambda tx: tx.execute(query).one_or_none())
        return None if row is None else to_session(row)

    def end(self, hash: str) -> None:
        self.database.write(lambda tx: tx.execute(delete(web_session).where(s.hash == hash)))

    def remove_before(self, before: datetime) -> int:
        old = delete(web_session).where(s.end_time < to_millis(before))
        return self.database.write(lambda tx: int(tx.execute(old).rowcount))


def to_session(row: Row[Any]) -> WebSession:
    return WebSession(
        name=row.name, role=Role(row.role), owner=row.owner, token=row.token_id, seal=row.seal,
        ends_at=to_time(row.end_time),
    )  # fmt: skip


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
