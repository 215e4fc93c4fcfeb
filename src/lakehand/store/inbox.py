# SPDX-License-Identifier: Apache-2.0
"""The inbox: stores a batch of notifications in one transaction of a few statements, repeats included."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, func, literal_column, or_, select, update

from lakehand.domain.errors import Conflict, Moved
from lakehand.domain.events import Event
from lakehand.domain.notifications import InboxRow
from lakehand.domain.operations import MOST_UNFINISHED, NewOperation, Operation
from lakehand.domain.processes import Instant, TableProcess
from lakehand.domain.tables import TableChanges, TableId, TableSpec
from lakehand.store.clock import to_millis
from lakehand.store.compiled_statements import BatchInsert, ListStatement
from lakehand.store.database import Database
from lakehand.store.dialects import insert_missing
from lakehand.store.events import EventWriter
from lakehand.store.operation_queries import UNFINISHED_WORDS
from lakehand.store.operation_rows import new_row as operation_row
from lakehand.store.operation_rows import to_operation
from lakehand.store.partition_hints import PartitionHintWriter
from lakehand.store.schedules import WAKE_ALL
from lakehand.store.schema import Digest, Id, Key, operation, schedule, tbl
from lakehand.store.table_rows import key_of, new_row, revived_row, schedule_rows
from lakehand.store.waiting_operations import change_repeated, follow_table

ORIGIN = "wire"
t = tbl.c
o = operation.c
KNOWN = ListStatement(
    lambda keys: select(t.id, t.location_key, t.removed, t.priority, t.queue, t.owner, t.notify_time).where(
        t.location_key.in_(keys)
    ),
    [Digest],
)
FOLLOWED_NOW = ListStatement(lambda ids: select(t.id, t.priority, t.queue, t.owner).where(t.id.in_(ids)), [Id])
NOTIFIED = ListStatement(lambda ids: update(tbl).where(t.id.in_(ids)).values(notify_time=bindparam("now")), [Id])
STORED = ListStatement(
    lambda pairs: select(o.tbl_id, o.instant).where(or_(*(and_(o.tbl_id == a, o.instant == b) for a, b in pairs))),
    [Id, Key],
)
WORDS: list[ColumnElement[str]] = [
    literal_column(f"'{word}'") for word in UNFINISHED_WORDS
]  # compiled once: no list to be filled in
UNFINISHED_COUNTS = ListStatement(
    lambda ids: select(o.tbl_id, func.count()).where(o.tbl_id.in_(ids), o.status.in_(WORDS)).group_by(o.tbl_id), [Id]
)
WHOLE = ListStatement(
    lambda pairs: select(operation).where(or_(*(and_(o.tbl_id == a, o.instant == b) for a, b in pairs))), [Id, Key]
)
MOST_RECENT = 100_000
Pair = tuple[int, str]  # table, instant
OFTEN = 1000  # milliseconds: more frequent notifications do not update the time


@dataclass(slots=True)
class SqlInbox:
    database: Database
    events: EventWriter
    hints: PartitionHintWriter
    insert_tables: BatchInsert = field(init=False)
    insert_schedules: BatchInsert = field(init=False)
    insert_operations: BatchInsert = field(init=False)
    # Operations stored here, with what their last repeat asked for; None: nothing was compared yet.
    recent: dict[Pair, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.insert_tables = BatchInsert(insert_missing(self.database.dialect, tbl))
        self.insert_schedules = BatchInsert(insert_missing(self.database.dialect, schedule))
        self.insert_operations = BatchInsert(insert_missing(self.database.dialect, operation))

    def store(self, rows: Sequence[InboxRow], events: Sequence[Event], *, now: datetime) -> Sequence[TableId]:
        if not rows and not events:
            return []
        return self.database.write(lambda tx: self.write(tx, rows, events, to_millis(now)))

    def write(self, tx: Connection, rows: Sequence[InboxRow], events: Sequence[Event], now: int) -> Sequence[TableId]:
        specs = {key_of(row.table.location): row.table for row in reversed(rows)}
        expected = {key_of(row.table.location) for row in rows if row.is_known}
        written = list(events)
        by_key = self.register(tx, specs, expected, written, now) if specs else {}
        tables = [by_key[key_of(row.table.location)] for row in rows]
        written += self.add_operations(tx, rows, tables, now)
        self.wake(tx, rows, tables, now)
        self.hints.merge(tx, named_partitions(rows, tables))
        pairs = zip(rows, tables, strict=True)
        written += [replace(row.note, table=row.note.table or table.id) for row, table in pairs if row.note]
        if written:
            self.events.write(tx, written, now)
        return [TableId(table.id) for table in tables]

    def register(
        self, tx: Connection, specs: Mapping[str, TableSpec], expected: set[str], events: list[Event], now: int
    ) -> Mapping[str, Row[Any]]:
        """The rows of these tables by location key; missing and removed ones are registered."""
        known = read_known(tx, specs)
        unknown = {key: spec for key, spec in specs.items() if key not in known}
        removed = {key: row for key, row in known.items() if row.removed}
        if not expected.isdisjoint(unknown) or not expected.isdisjoint(removed):
            raise Moved("a table that was registered a moment ago was removed")
        if unknown:
            self.add_tables(tx, unknown, events, now)
        for key, row in removed.items():
            self.revive(tx, row, specs[key], events, now)
        return read_known(tx, specs) if unknown or removed else known

    def add_tables(self, tx: Connection, specs: Mapping[str, TableSpec], events: list[Event], now: int) -> None:
        rows = {key: new_row(spec, now) for key, spec in sorted(specs.items())}
        self.insert_tables.run(tx, list(rows.values()))
        added = read_known(tx, specs)
        nameless = [key for key in rows if key not in added]
        if nameless:
            # Their location is free, so their name is taken.
            self.insert_tables.run(tx, [rows[key] | {"name_key": None} for key in nameless])
            added = read_known(tx, specs)
            events += [name_taken(specs[key], added[key]) for key in nameless]
        self.add_schedules(tx, [(added[key].id, spec) for key, spec in specs.items()], now)

    def revive(self, tx: Connection, row: Row[Any], spec: TableSpec, events: list[Event], now: int) -> None:
        values = revived_row(spec, now)
        taken = select(t.id).where(t.name_key == values["name_key"], t.id != row.id)
        if values["name_key"] and tx.execute(taken).first():
            values["name_key"] = None
            events.append(name_taken(spec, row))
        tx.execute(update(tbl).where(t.id == row.id).values(values))
        self.add_schedules(tx, [(row.id, spec)], now)

    def add_schedules(self, tx: Connection, tables: Sequence[tuple[TableId, TableSpec]], now: int) -> None:
        rows = [row for table, spec in tables for row in schedule_rows(table, spec.action_types, now)]
        if rows:
            self.insert_schedules.run(tx, rows)

    def add_operations(
        self, tx: Connection, rows: Sequence[InboxRow], tables: Sequence[Row[Any]], now: int
    ) -> Sequence[Event]:
        """Returns an event for each table with more requested operations than may wait."""
        wanted: dict[Pair, tuple[InboxRow, Row[Any]]] = {
            (table.id, instant): (row, table)
            for row, table in zip(rows, tables, strict=True)
            if row.process is not None
            for instant in row.instants
        }
        if not wanted:
            return []
        # An insert that conflicts costs more than a select. Either is right; the recent ones decide which is tried.
        repeated = sorted(pair for pair in wanted if pair in self.recent)
        stored = {(found[0], found[1]) for found in STORED.rows(tx, repeated)}
        fresh, events = self.within_cap(tx, sorted(pair for pair in wanted if pair not in stored))
        if fresh:
            self.insert_operations.run(tx, [self.operation_of(pair, *wanted[pair], now) for pair in fresh])
            self.remember(dict.fromkeys(fresh))
            self.follow_changes(tx, {pair[0]: wanted[pair][1] for pair in fresh}, now)
        return [*events, *self.change_repeated(tx, stored, wanted, now)]

    def follow_changes(self, tx: Connection, read: Mapping[int, Row[Any]], now: int) -> None:
        """Follow what a person changed in tables since they were read. From the insert on, such changes wait for us."""
        if self.database.dialect == "sqlite":
            return  # nobody else writes meanwhile
        for row in FOLLOWED_NOW.rows(tx, sorted(read)):
            if tuple(row)[1:] != (read[row.id].priority, read[row.id].queue, read[row.id].owner):
                changes = TableChanges(priority=row.priority, queue=row.queue, owner=row.owner)
                follow_table(tx, TableId(row.id), changes, now)

    def change_repeated(
        self, tx: Connection, stored: Collection[Pair], wanted: Mapping[Pair, tuple[InboxRow, Row[Any]]], now: int
    ) -> Sequence[Event]:
        """Update those that wait with what their repeats say otherwise. Writers cannot be refused: the rest is left."""
        requests = {id(row): row for row, _ in (wanted[pair] for pair in stored)}
        by_request = {number: asked_of(row) for number, row in requests.items()}  # each may have many instants
        asked = {pair: by_request[id(wanted[pair][0])] for pair in stored}
        unknown = sorted(pair for pair in stored if self.recent.get(pair) != asked[pair])
        events: list[Event] = []
        for row in WHOLE.rows(tx, unknown):
            pair, known = (row.tbl_id, row.instant), to_operation(row)
            new = self.new_operation(pair, wanted[pair][0])
            if known.process.action != new.process.action:
                events.append(other_action(known, new.process))
                continue
            with suppress(Conflict):
                # Its queue and owner may have been changed by a person since the first request.
                change_repeated(tx, known, replace(new, queue=None, owner=None), now)
            self.remember({pair: asked[pair]})
        return events

    def within_cap(self, tx: Connection, fresh: Sequence[Pair]) -> tuple[Sequence[Pair], Sequence[Event]]:
        """Those that may be stored: the newest of each table, up to the cap of unfinished operations."""
        if not fresh:
            return fresh, []
        counts = {row[0]: row[1] for row in UNFINISHED_COUNTS.rows(tx, sorted({pair[0] for pair in fresh}))}
        wanted = Counter(pair[0] for pair in fresh)
        full = {table for table, count in wanted.items() if counts.get(table, 0) + count > MOST_UNFINISHED}
        if not full:
            return fresh, []
        known = {(row[0], row[1]) for row in STORED.rows(tx, [pair for pair in fresh if pair[0] in full])}
        chosen, events = [pair for pair in fresh if pair[0] not in full], []
        for table in sorted(full):
            new = [pair for pair in fresh if pair[0] == table and pair not in known]
            room = max(MOST_UNFINISHED - counts.get(table, 0), 0)
            chosen += newest(new, room)
            events += [too_many(table, len(new) - room, counts.get(table, 0))] if room < len(new) else []
        return sorted(chosen), events

    def operation_of(self, pair: Pair, row: InboxRow, table: Row[Any], now: int) -> dict[str, Any]:
        new = self.new_operation(pair, row)
        return {**operation_row(new, table, now), "plan_instant": new.process.instant or new.instant}

    def new_operation(self, pair: Pair, row: InboxRow) -> NewOperation:
        assert row.process is not None
        return NewOperation(
            table=TableId(pair[0]), instant=Instant(pair[1]), process=row.process, queue=row.queue, owner=row.owner,
            origin=ORIGIN, retry_on_error=row.retry_on_error, wanted_engine=row.engine,
        )  # fmt: skip

    def remember(self, pairs: Mapping[Pair, int | None]) -> None:
        if len(self.recent) > MOST_RECENT:
            self.recent.clear()
        self.recent.update(pairs)

    def wake(self, tx: Connection, rows: Sequence[InboxRow], tables: Sequence[Row[Any]], now: int) -> None:
        """Store the time of the notification, and make the tables' schedules due."""
        due = ids_of(table for table in tables if table.notify_time is None or table.notify_time <= now - OFTEN)
        NOTIFIED.run(tx, due, now=now)
        WAKE_ALL.run(tx, ids_of(table for row, table in zip(rows, tables, strict=True) if row.wake), now=now)


def read_known(tx: Connection, specs: Mapping[str, TableSpec]) -> dict[str, Row[Any]]:
    return {row.location_key: row for row in KNOWN.rows(tx, sorted(specs))}


def named_partitions(rows: Sequence[InboxRow], tables: Sequence[Row[Any]]) -> Mapping[int, Sequence[str]]:
    named: dict[int, list[str]] = {}
    for row, table in zip(rows, tables, strict=True):
        if row.partitions:
            named.setdefault(table.id, []).extend(row.partitions)
    return named


def ids_of(rows: Iterable[Row[Any]]) -> Sequence[int]:
    return sorted({row.id for row in rows})


def newest(pairs: Sequence[Pair], count: int) -> Sequence[Pair]:
    """By instant, with 14 and 17 digits made comparable."""
    return sorted(pairs, key=lambda pair: pair[1].ljust(17, "0"), reverse=True)[:count]


def asked_of(row: InboxRow) -> int:
    """Differs where two requests for the same instant ask for something else."""
    assert row.process is not None
    return hash((row.process.action, repr(row.process.parameters), row.engine, row.retry_on_error))


def other_action(stored: Operation, wanted: TableProcess) -> Event:
    """An instant is one plan of one action; a writer cannot be refused, so the operator is told."""
    message = f"{wanted.action} was asked for at {stored.instant}, an instant of {stored.process.action}"
    return Event.counted("intake.other-action", f"{message}: nothing was stored", table=stored.table)


def too_many(table: int, dropped: int, unfinished: int) -> Event:
    return Event(
        kind="intake.too-many",
        message=f"{dropped} operations that a writer asked for were not stored: {unfinished} of the table are "
        f"unfinished, and at most {MOST_UNFINISHED} may be. The newest plans are stored first; the others are found "
        f"when the table is evaluated. To remove what waits: lakehand operations clear {table}",
        table=TableId(table),
        fingerprint=f"intake.too-many:{table}",
    )


def name_taken(spec: TableSpec, row: Row[Any]) -> Event:
    return Event(
        kind="table.name-taken",
        message=f"{spec.location} was registered by a writer as {spec.db_name}.{spec.table_name}, which is the name of "
        "another table: it is served, but until the other table is removed, name it by its location or id",
        table=TableId(row.id),
        fingerprint=f"table.name-taken:{row.id}",
    )
