# SPDX-License-Identifier: Apache-2.0
"""Events in SQL: appended, and counted in one row where they carry the same fingerprint."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, exists, func, insert, or_, select

from lakehand.core.ports import Page
from lakehand.domain.events import Event, StoredEvent
from lakehand.domain.operations import UNFINISHED, OperationId
from lakehand.domain.tables import TableId
from lakehand.store.clock import to_millis, to_time
from lakehand.store.compiled_statements import BatchInsert, ListStatement
from lakehand.store.database import Database
from lakehand.store.dialects import upsert
from lakehand.store.documents import from_document, storable_text, to_document
from lakehand.store.paging import read_page
from lakehand.store.schema import Id, event, operation

LONGEST_FINGERPRINT = 250
LONGEST_KIND = 64
BY_IDS = ListStatement(lambda ids: select(event).where(event.c.event_id.in_(ids)), [Id])


@dataclass(slots=True)
class EventWriter:
    """Writes events within someone's transaction."""

    dialect: str
    insert_counted: BatchInsert = field(init=False)
    insert_plain: BatchInsert = field(init=False)

    def __post_init__(self) -> None:
        last = ("message", "detail", "event_time")
        self.insert_counted = BatchInsert(upsert(self.dialect, event, ("fingerprint",), set_=last, add=("times",)))
        self.insert_plain = BatchInsert(insert(event))

    def write(self, tx: Connection, events: Iterable[Event], now: int) -> None:
        rows = [to_row(e, now) for e in events]
        plain = [row for row in rows if row["fingerprint"] is None]
        if plain:
            self.insert_plain.run(tx, plain)
        if len(plain) < len(rows):
            self.insert_counted.run(tx, merge_equal([row for row in rows if row["fingerprint"] is not None]))


@dataclass(frozen=True, slots=True)
class SqlEvents:
    database: Database
    writer: EventWriter

    def add(self, events: Sequence[Event], *, now: datetime) -> None:
        if events:
            self.database.write(lambda tx: self.writer.write(tx, events, to_millis(now)))

    def list(
        self, *, table: TableId | None = None, operation: OperationId | None = None, kind: str | None = None,
        limit: int = 100, cursor: str | None = None,
    ) -> Page[StoredEvent]:  # fmt: skip
        same = {event.c.tbl_id: table, event.c.operation_id: operation}
        query = select(event).where(*(column == value for column, value in same.items() if value is not None))
        if kind is not None:
            is_prefix = kind.endswith(".")
            query = query.where(event.c.kind.startswith(kind, autoescape=True) if is_prefix else event.c.kind == kind)
        keys = [event.c.event_time, event.c.event_id]
        return read_page(self.database, query, keys, to_event, limit=limit, cursor=cursor)

    def after(self, id: int, *, limit: int) -> Sequence[StoredEvent]:
        query = select(event).where(event.c.event_id > id).order_by(event.c.event_id).limit(limit)
        return [to_event(row) for row in self.database.read(lambda tx: tx.execute(query).all())]

    def by_ids(self, ids: Collection[int]) -> Sequence[StoredEvent]:
        rows = self.database.read(lambda tx: BY_IDS.rows(tx, sorted(ids))) if ids else []
        found = {row.event_id: to_event(row) for row in rows}
        return [found[key] for key in sorted(found)]

    def last_id(self) -> int:
        return self.database.read(lambda tx: tx.scalar(select(func.max(event.c.event_id)))) or 0

    def remove_before(self, before: datetime, *, limit: int) -> int:
        """Delete events that last happened before, except those of operations that are not finished."""
        is_needed = exists().where(operation.c.operation_id == event.c.operation_id, operation.c.status.in_(UNFINISHED))
        is_old = and_(event.c.event_time < to_millis(before), or_(event.c.operation_id.is_(None), ~is_needed))

        def remove(tx: Connection) -> int:
            seen = tx.scalars(select(event.c.event_id).where(is_old).order_by(event.c.event_time).limit(limit)).all()
            return tx.execute(delete(event).where(event.c.event_id.in_(seen), is_old)).rowcount if seen else 0

        return self.database.write(remove)


def merge_equal(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """One row per fingerprint, in a fixed order, so that two writers do not deadlock."""
    by_print: dict[str, dict[str, Any]] = {}
    for row in rows:
        times = by_print[row["fingerprint"]]["times"] if row["fingerprint"] in by_print else 0
        by_print[row["fingerprint"]] = {**row, "times": times + row["times"]}
    return [by_print[key] for key in sorted(by_print)]


def to_row(e: Event, now: int) -> dict[str, Any]:
    return {
        "kind": storable_text(e.kind)[:LONGEST_KIND],
        "message": storable_text(e.message),
        "tbl_id": e.table,
        "operation_id": e.operation,
        "detail": to_document(e.detail),
        "fingerprint": shorten(e.fingerprint),
        "times": e.times,
        "first_time": now,
        "event_time": now,
    }


def shorten(fingerprint: str | None) -> str | None:
    if fingerprint is None or (len(fingerprint) <= LONGEST_FINGERPRINT and fingerprint.isascii()):
        return fingerprint
    return hashlib.sha256(fingerprint.encode("utf-8", "replace")).hexdigest()


def to_event(row: Row[Any]) -> StoredEvent:
    named = {"kind": row.kind, "message": row.message, "fingerprint": row.fingerprint}
    event = Event(**named, table=row.tbl_id, operation=row.operation_id, detail=from_document(row.detail))
    at, first = to_time(row.event_time), to_time(row.first_time)
    return StoredEvent(id=row.event_id, event=event, at=at, first_at=first, times=row.times)
