# SPDX-License-Identifier: Apache-2.0
"""Tables in SQL, their states as an expression, and what factories remember of each, written by compare-and-set.

A removed table keeps its row, id and history, and loses its name and schedules.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from lakehand.core.ports import Page, TableFilter
from lakehand.domain.actions import Action
from lakehand.domain.errors import Conflict, NotFound
from lakehand.domain.fleet import ATTENTION, TableState
from lakehand.domain.locations import folders_above, path_key
from lakehand.domain.operations import Status
from lakehand.domain.tables import Table, TableChanges, TableId, TableSpec
from lakehand.store.clock import to_millis
from lakehand.store.compiled_statements import ListStatement
from lakehand.store.database import Database
from lakehand.store.dialects import insert_missing
from lakehand.store.documents import storable_text
from lakehand.store.operation_queries import LIVE_WORDS
from lakehand.store.paging import read_page
from lakehand.store.schema import Digest, Id, Key, PathKey, operation, schedule, table_state, tbl
from lakehand.store.table_rows import changed_row, key_of, new_row, revived_row, schedule_rows, split_actions, to_table
from lakehand.store.waiting_operations import WaitingOperations, follow_table

T = TypeVar("T")
SAME = ("db_name", "table_name", "owner", "queue", "format", "catalog")
CHUNK = 500  # values in one IN list
MOST_OVERLAPPING = 20
REGISTERED = tbl.c.removed.is_(False)
BY_KEYS = ListStatement(lambda keys: select(tbl).where(tbl.c.location_key.in_(keys), REGISTERED), [Digest])
BY_IDS = ListStatement(lambda ids: select(tbl).where(tbl.c.id.in_(ids)), [Id])

HAS_NAME = or_(tbl.c.name_key.is_not(None), tbl.c.db_name == "")
BY_NAMES = ListStatement(
    lambda names: select(tbl).where(
        or_(*(and_(tbl.c.db_name == db, tbl.c.table_name == name) for db, name in names)), HAS_NAME, REGISTERED
    ),
    [Key, Key],
)
# What lies in a folder has a key between that of the folder with a slash and with a zero, the character after it.
OVERLAPPING = ListStatement(
    lambda keys: (
        select(tbl)
        .where(
            or_(
                tbl.c.path_key.in_(keys),
                and_(tbl.c.path_key > bindparam("above"), tbl.c.path_key < bindparam("behind")),
            ),
            REGISTERED,
        )
        .order_by(tbl.c.id)
        .limit(MOST_OVERLAPPING)
    ),
    [PathKey],
)

c = tbl.c

# Sets instead of a subquery per table: each is read once, by an index, and is small.
HAS_FAILED = c.id.in_(select(schedule.c.tbl_id).where(schedule.c.failed_operation > 0))
IS_WORKING = c.id.in_(select(operation.c.tbl_id).where(operation.c.status.in_(LIVE_WORDS)))
NEEDS_WORK = c.id.in_(select(operation.c.tbl_id).where(operation.c.status == Status.PENDING.value))
WAS_EVALUATED = exists().where(schedule.c.tbl_id == c.id, schedule.c.last_look.is_not(None))

CONDITIONS: dict[TableState, ColumnElement[bool]] = {
    TableState.PAUSED: c.paused.is_(True),
    TableState.UNREADABLE: c.problem.is_not(None),
    TableState.FAILED: HAS_FAILED,
    TableState.WORKING: IS_WORKING,
    TableState.NEEDS_WORK: NEEDS_WORK,
    TableState.NEW: and_(c.health_time.is_(None), ~WAS_EVALUATED),
}
# The position in ATTENTION: what a person wants to see first has the smallest number.
STATE: ColumnElement[int] = case(
    *((CONDITIONS[state], literal(ATTENTION.index(state))) for state in TableState if state in CONDITIONS),
    else_=literal(ATTENTION.index(TableState.HEALTHY)),
)


@dataclass(frozen=True, slots=True)
class SqlTables:
    database: Database
    waiting: WaitingOperations

    def get(self, id: TableId) -> Table:
        return self.database.read(lambda tx: to_table(row_of(tx, id)))

    def by_locations(self, locations: Collection[str]) -> Mapping[str, Table]:
        keys = {location: key_of(location) for location in locations}
        rows = self.gather(BY_KEYS, sorted(set(keys.values())))
        found = {row.location_key: to_table(row) for row in rows}
        return {location: found[key] for location, key in keys.items() if key in found}

    def by_ids(self, ids: Collection[TableId]) -> Mapping[TableId, Table]:
        return {TableId(row.id): to_table(row) for row in self.gather(BY_IDS, sorted(ids))}

    def gather(self, query: ListStatement, values: Sequence[Any]) -> Sequence[Row[Any]]:
        return self.database.read(lambda tx: query.rows(tx, values)) if values else []

    def by_name(self, db_name: str, table_name: str) -> Sequence[Table]:
        named = and_(tbl.c.db_name == db_name, tbl.c.table_name == table_name, HAS_NAME)
        query = select(tbl).where(named, REGISTERED).order_by(tbl.c.id)
        return [to_table(row) for row in self.database.read(lambda tx: tx.execute(query).all())]

    def by_names(self, names: Collection[tuple[str, str]]) -> Sequence[Table]:
        return [to_table(row) for row in self.gather(BY_NAMES, sorted(names))]

    def overlapping(self, real: str) -> Sequence[Table]:
        return self.database.read(lambda tx: read_overlapping(tx, path_key(real)))

    def with_overlapping(self, id: TableId) -> tuple[Table, Sequence[Table]]:
        def read(tx: Connection) -> tuple[Table, Sequence[Table]]:
            table = to_table(row_of(tx, id))
            return table, read_overlapping(tx, table.path_key) if table.path_key else []

        return self.database.read(read)

    def list(self, filter: TableFilter, *, limit: int, cursor: str | None) -> Page[Table]:
        query = select(tbl).where(*conditions(filter))
        return read_page(self.database, query, [tbl.c.id], to_table, limit=limit, cursor=cursor, descending=False)

    def add(self, spec: TableSpec, *, now: datetime, real: str = "") -> tuple[Table, bool]:
        try:
            return self.database.write(lambda tx: self.put(tx, spec, to_millis(now), real))
        except IntegrityError as error:
            raise Conflict(
                f"another table is called {spec.db_name}.{spec.table_name}: remove it first, or choose another name"
            ) from error

    def put(self, tx: Connection, spec: TableSpec, now: int, real: str) -> tuple[Table, bool]:
        at = tbl.c.location_key == key_of(spec.location)
        known = tx.execute(select(tbl).where(at).with_for_update()).one_or_none()
        if known is not None and not known.removed:
            return to_table(known), False
        if known is None and not self.insert(tx, new_row(spec, now, real)):
            return to_table(tx.execute(select(tbl).where(at)).one()), False
        if known is not None:
            tx.execute(update(tbl).where(at).values(revived_row(spec, now, real)))
        row = tx.execute(select(tbl).where(at)).one()
        self.add_schedules(tx, TableId(row.id), spec.action_types, now)
        return to_table(row), True

    def insert(self, tx: Connection, values: Mapping[str, Any]) -> bool:
        """False if another instance has registered the location meanwhile; raises if the name is taken."""
        try:
            with tx.begin_nested():
                tx.execute(insert(tbl).values(values))
        except IntegrityError:
            rival = tx.execute(select(tbl.c.id).where(tbl.c.location_key == values["location_key"])).first()
            if rival is None:
                raise
            return False
        return True

    def add_schedules(self, tx: Connection, table: TableId, wanted: Collection[Action], now: int) -> None:
        rows = schedule_rows(table, wanted, now)
        if rows:
            tx.execute(insert_missing(self.database.dialect, schedule), rows)

    def change(self, id: TableId, changes: TableChanges, *, now: datetime) -> Table:
        def write(tx: Connection) -> Table:
            row = row_of(tx, id, lock=True)
            if row.removed:
                raise NotFound(f"table {id} was removed")
            tx.execute(update(tbl).where(tbl.c.id == id).values(changed_row(changes, to_millis(now))))
            follow_table(tx, id, changes, to_millis(now))
            if changes.action_types is not None:
                dropped = split_actions(row.action_types) - changes.action_types
                tx.execute(delete(schedule).where(schedule.c.tbl_id == id, schedule.c.action.in_(dropped)))
                self.add_schedules(tx, id, changes.action_types, to_millis(now))
                self.waiting.drop(tx, id, dropped, to_millis(now))
            return to_table(row_of(tx, id))

        return self.database.write(write)

    def set_real(self, id: TableId, real: str) -> None:
        values = {"path_key": path_key(real)}
        self.database.write(lambda tx: tx.execute(update(tbl).where(tbl.c.id == id).values(values)))

    def remove(self, id: TableId, *, now: datetime) -> None:
        def write(tx: Connection) -> None:
            row = row_of(tx, id, lock=True)
            gone = {"removed": True, "name_key": None, "update_time": to_millis(now)}
            tx.execute(update(tbl).where(tbl.c.id == id).values(gone))
            tx.execute(delete(schedule).where(schedule.c.tbl_id == id))
            if row.name_key:
                pass_on_name(tx, row)

        self.database.write(write)


def row_of(tx: Connection, id: TableId, *, lock: bool = False) -> Row[Any]:
    query = select(tbl).where(tbl.c.id == id)
    row = tx.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"there is no table {id}")
    return row


def read_overlapping(tx: Connection, key: str) -> Sequence[Table]:
    rows = OVERLAPPING.rows(tx, [key, *folders_above(key)], above=f"{key}/", behind=f"{key}0")
    return [to_table(row) for row in rows]


def pass_on_name(tx: Connection, removed: Row[Any]) -> None:
    """A table that was registered under a taken name gets the name when it is free."""
    waiting = select(tbl.c.id).where(
        tbl.c.db_name == removed.db_name, tbl.c.table_name == removed.table_name, tbl.c.catalog == removed.catalog,
        REGISTERED,
    )  # fmt: skip
    successor = tx.execute(waiting.order_by(tbl.c.id).limit(1)).scalar_one_or_none()
    if successor is not None:
        tx.execute(update(tbl).where(tbl.c.id == successor).values(name_key=removed.name_key))


def conditions(filter: TableFilter) -> Sequence[ColumnElement[bool]]:
    wanted = {name: getattr(filter, name) for name in SAME}
    same = [tbl.c[name] == value for name, value in wanted.items() if value is not None]
    if filter.location is not None:
        same.append(tbl.c.location_key == key_of(filter.location))
    if filter.paused is not None:
        same.append(tbl.c.paused.is_(filter.paused))
    if filter.state is not None:
        same.append(has_state(filter.state))
    if filter.search:
        same.append(matches(filter.search))
    return [*same, tbl.c.removed.is_(filter.removed)]


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]


def has_state(state: TableState) -> ColumnElement[bool]:
    """Its condition, and none of those that count before it: the database begins with the smallest set."""
    order = list(TableState)
    before = [~CONDITIONS[one] for one in order[: order.index(state)]]
    return and_(CONDITIONS.get(state, true()), *before)


def matches(search: str) -> ColumnElement[bool]:
    part = storable_text(search).lower()
    name = func.lower(c.db_name + "." + c.table_name)
    return or_(name.contains(part, autoescape=True), func.lower(c.base_path).contains(part, autoescape=True))


@dataclass(frozen=True, slots=True)
class SqlStates:
    database: Database

    def get(self, table: TableId, factory: str, key: str) -> str | None:
        query = select(table_state.c.value).where(is_named(table, factory, key))
        return self.database.read(lambda tx: tx.execute(query).scalar_one_or_none())

    def put(self, table: TableId, factory: str, key: str, value: str, *, seen: str | None) -> bool:
        first = insert(table_state).values(tbl_id=table, factory=factory, state_key=key, value=value)
        change = (
            update(table_state).where(is_named(table, factory, key), table_state.c.value == seen).values(value=value)
        )
        try:
            return self.database.write(lambda tx: tx.execute(first if seen is None else change).rowcount != 0)
        except IntegrityError:
            return False


def is_named(table: TableId, factory: str, key: str) -> ColumnElement[bool]:
    return and_(table_state.c.tbl_id == table, table_state.c.factory == factory, table_state.c.state_key == key)
