# SPDX-License-Identifier: Apache-2.0
"""The hot path: a batch of notifications becomes rows in one transaction of a few statements, repeats included."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, func, literal_column, or_, select, update

from lakehand.core.ports import Arrival
from lakehand.domain.errors import Moved
from lakehand.domain.events import Event
from lakehand.domain.operations import MOST_UNFINISHED, NewOperation
from lakehand.domain.processes import Instant, TableProcess
from lakehand.domain.tables import TableId, TableSpec
from lakehand.store.clock import to_millis
from lakehand.store.database import Database
from lakehand.store.dialects import insert_missing
from lakehand.store.events import EventWriter
from lakehand.store.operation_reads import UNFINISHED_WORDS
from lakehand.store.operation_rows import new_row as operation_row
from lakehand.store.operation_rows import process_row
from lakehand.store.prepared import Listed, Rows
from lakehand.store.schedules import WAKE_ALL
from lakehand.store.schema import Digest, Id, Key, operation, schedule, tbl
from lakehand.store.table_rows import key_of, new_row, revived_row, schedule_rows

ORIGIN = "wire"
t = tbl.c
o = operation.c
KNOWN = Listed(
    lambda keys: select(t.id, t.location_key, t.removed, t.priority, t.queue, t.owner, t.notify_time).where(
        t.location_key.in_(keys)
    ),
    [Digest],
)
NOTIFIED = Listed(lambda ids: update(tbl).where(t.id.in_(ids)).values(notify_time=bindparam("now")), [Id])
STORED = Listed(
    lambda pairs: select(o.tbl_id, o.instant).where(or_(*(and_(o.tbl_id == a, o.instant == b) for a, b in pairs))),
    [Id, Key],
)
WORDS: list[ColumnElement[str]] = [
    literal_column(f"'{word}'") for word in UNFINISHED_WORDS
]  # compiled once: no list to be filled in
UNFINISHED_COUNTS = Listed(
    lambda ids: select(o.tbl_id, func.count()).where(o.tbl_id.in_(ids), o.status.in_(WORDS)).group_by(o.tbl_id),
    [Id],
)
MOST_RECENT, MOST_PROCESSES = 100_000, 1000
Pair = tuple[int, str]  # table, instant
OFTEN = 1000  # milliseconds: a writer that speaks more often is noted once


@dataclass(slots=True)
class SqlInbox:
    database: Database
    events: EventWriter
    insert_tables: Rows = field(init=False)
    insert_schedules: Rows = field(init=False)
    insert_operations: Rows = field(init=False)
    recent: set[tuple[int, str]] = field(default_factory=set)  # (table, instant) of operations stored here
    processes: dict[int, tuple[TableProcess, Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.insert_tables = Rows(insert_missing(self.database.dialect, tbl))
        self.insert_schedules = Rows(insert_missing(self.database.dialect, schedule))
        self.insert_operations = Rows(insert_missing(self.database.dialect, operation))

    def store(self, arrivals: Sequence[Arrival], notes: Sequence[Event], *, now: datetime) -> Sequence[TableId]:
        """Store a batch of arrivals, and events of no table, in one transaction; durable when it returns."""
        if not arrivals and not notes:
            return []
        return self.database.write(lambda tx: self.write(tx, arrivals, notes, to_millis(now)))

    def write(self, tx: Connection, arrivals: Sequence[Arrival], notes: Sequence[Event], now: int) -> Sequence[TableId]:
        specs = {key_of(a.table.location): a.table for a in reversed(arrivals)}
        events = list(notes)
        sure = {key_of(a.table.location) for a in arrivals if a.is_known}
        tables = self.register(tx, specs, sure, events, now) if specs else {}
        rows = [tables[key_of(a.table.location)] for a in arrivals]
        events += self.add_operations(tx, arrivals, rows, now)
        self.tell(tx, arrivals, rows, now)
        events += [
            replace(a.note, table=a.note.table or row.id) for a, row in zip(arrivals, rows, strict=True) if a.note
        ]
        if events:
            self.events.write(tx, events, now)
        return [TableId(row.id) for row in rows]

    def register(
        self, tx: Connection, specs: Mapping[str, TableSpec], sure: set[str], events: list[Event], now: int
    ) -> Mapping[str, Row[Any]]:
        """The rows of all these tables; those that were not there are there afterwards."""
        known = read_known(tx, specs)
        unknown = {key: spec for key, spec in specs.items() if key not in known}
        removed = {key: row for key, row in known.items() if row.removed}
        if not sure.isdisjoint(unknown) or not sure.isdisjoint(removed):
            raise Moved("a table that was registered a moment ago is not there any more")
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
            # What kept these out is not their location, so it is their name.
            self.insert_tables.run(tx, [rows[key] | {"name_key": None} for key in nameless])
            added = read_known(tx, specs)
            events += [name_taken(specs[key], added[key]) for key in nameless]
        wanted = [s for key, spec in specs.items() for s in schedule_rows(added[key].id, spec.action_types, now)]
        if wanted:
            self.insert_schedules.run(tx, wanted)

    def revive(self, tx: Connection, row: Row[Any], spec: TableSpec, events: list[Event], now: int) -> None:
        values = revived_row(spec, now)
        taken = select(t.id).where(t.name_key == values["name_key"], t.id != row.id)
        if values["name_key"] and tx.execute(taken).first():
            values["name_key"] = None
            events.append(name_taken(spec, row))
        tx.execute(update(tbl).where(t.id == row.id).values(values))
        wanted = schedule_rows(row.id, spec.action_types, now)
        if wanted:
            self.insert_schedules.run(tx, wanted)

    def add_operations(
        self, tx: Connection, arrivals: Sequence[Arrival], rows: Sequence[Row[Any]], now: int
    ) -> Sequence[Event]:
        """Returns what is to be told: which tables were asked for more operations than may wait."""
        wanted: dict[Pair, tuple[TableProcess, Row[Any]]] = {
            (row.id, instant): (arrival.process, row)
            for arrival, row in zip(arrivals, rows, strict=True)
            if arrival.process is not None
            for instant in arrival.instants
        }
        if not wanted:
            return []
        # An insert that meets its row costs more than a question; whether it will is guessed, and both are right.
        repeated = sorted(pair for pair in wanted if pair in self.recent)
        stored = {(row[0], row[1]) for row in STORED.rows(tx, repeated)}
        fresh, notes = self.within_cap(tx, sorted(pair for pair in wanted if pair not in stored))
        if fresh:
            self.insert_operations.run(tx, [self.operation_of(pair, *wanted[pair], now) for pair in fresh])
            self.remember(fresh)
        return notes

    def within_cap(self, tx: Connection, fresh: Sequence[Pair]) -> tuple[Sequence[Pair], Sequence[Event]]:
        """Those that may be stored: of each table the newest by instant, as long as not too many wait."""
        if not fresh:
            return fresh, []
        counts = {row[0]: row[1] for row in UNFINISHED_COUNTS.rows(tx, sorted({pair[0] for pair in fresh}))}
        asked = Counter(pair[0] for pair in fresh)
        full = {table for table, count in asked.items() if counts.get(table, 0) + count > MOST_UNFINISHED}
        if not full:
            return fresh, []
        known = {(row[0], row[1]) for row in STORED.rows(tx, [pair for pair in fresh if pair[0] in full])}
        kept, notes = [pair for pair in fresh if pair[0] not in full], []
        for table in sorted(full):
            new = [pair for pair in fresh if pair[0] == table and pair not in known]
            room = max(MOST_UNFINISHED - counts.get(table, 0), 0)
            kept += newest(new, room)
            notes += [too_many(table, len(new) - room, counts.get(table, 0))] if room < len(new) else []
        return sorted(kept), notes

    def operation_of(self, pair: tuple[int, str], process: TableProcess, table: Row[Any], now: int) -> dict[str, Any]:
        instant = Instant(pair[1])
        new = NewOperation(
            table=TableId(pair[0]), instant=instant, process=process, priority=table.priority,
            queue=table.queue, owner=table.owner, origin=ORIGIN,
        )  # fmt: skip
        of_process = {**self.row_of(process), "plan_instant": process.instant or instant}
        return operation_row(new, now, of_process)

    def row_of(self, process: TableProcess) -> Mapping[str, Any]:
        """Made once for an object: the intake gives the same one for the same wish."""
        known = self.processes.get(id(process))
        if known is None or known[0] is not process:
            if len(self.processes) > MOST_PROCESSES:
                self.processes.clear()
            known = self.processes[id(process)] = (process, process_row(process))
        return known[1]

    def remember(self, pairs: Iterable[tuple[int, str]]) -> None:
        if len(self.recent) > MOST_RECENT:
            self.recent.clear()
        self.recent.update(pairs)

    def tell(self, tx: Connection, arrivals: Sequence[Arrival], rows: Sequence[Row[Any]], now: int) -> None:
        """Note that the writers spoke, and make their tables due."""
        quiet = ids_of(row for row in rows if row.notify_time is None or row.notify_time <= now - OFTEN)
        woken = ids_of(row for arrival, row in zip(arrivals, rows, strict=True) if arrival.wake)
        NOTIFIED.run(tx, quiet, now=now)
        WAKE_ALL.run(tx, woken, now=now)


def read_known(tx: Connection, specs: Mapping[str, TableSpec]) -> dict[str, Row[Any]]:
    return {row.location_key: row for row in KNOWN.rows(tx, sorted(specs))}


def ids_of(rows: Iterable[Row[Any]]) -> Sequence[int]:
    return sorted({row.id for row in rows})


def newest(pairs: Sequence[Pair], count: int) -> Sequence[Pair]:
    """By instant. Those of 14 and of 17 digits are made comparable."""
    return sorted(pairs, key=lambda pair: pair[1].ljust(17, "0"), reverse=True)[:count]


def too_many(table: int, dropped: int, unfinished: int) -> Event:
    return Event(
        kind="intake.too-many",
        message=f"{dropped} operations that a writer asked for were not stored: {unfinished} of the table were "
        f"unfinished, and no more than {MOST_UNFINISHED} may be; the newest plans go first, the "
        f"others are found by looking at the table. To take out what waits: lakehand operations clear {table}",
        table=TableId(table),
        fingerprint=f"intake.too-many:{table}",
    )


def name_taken(spec: TableSpec, row: Row[Any]) -> Event:
    return Event(
        kind="table.name-taken",
        message=f"{spec.location} was registered by a writer as {spec.db_name}.{spec.table_name}, which is the name of "
        "another table: it is served, but found by its location or id only until the other table is removed",
        table=TableId(row.id),
        fingerprint=f"table.name-taken:{row.id}",
    )
