# SPDX-License-Identifier: Apache-2.0
"""What callers ask of tables: each change is allowed, recorded in the audit trail, done."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from lakehand.api.fields import values_of
from lakehand.api.tables import ChangedTable, HistoryQuery, NewTable, TableQuery
from lakehand.core.overlaps import OverlapGuard, unresolved
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import OperationEnd, Page, Store, TableFilter
from lakehand.core.services.audit_trail import (
    AuditTrail,
    changed_state,
    need_table,
    request_of,
    same_fields,
    spec_state,
)
from lakehand.domain.access import AuditRequest, Caller, Role
from lakehand.domain.actions import Action
from lakehand.domain.errors import Conflict, Invalid, NotFound
from lakehand.domain.events import Event
from lakehand.domain.health import HealthPoint
from lakehand.domain.locations import EXTRA_LOCATIONS, Warehouses, extra_locations
from lakehand.domain.operations import OperationId
from lakehand.domain.processes import Json
from lakehand.domain.tables import HEARTBEAT_TIMEOUT, Format, Table, TableChanges, TableId, TableSpec
from lakehand.domain.texts import read_id

LONGEST_NAME = 250
BATCH = 2000  # operations that are ended in one transaction
SERVICE = "lakehand"  # the name in events that no person caused
MOST_OPERATIONS = 500  # in the history of a table
EVERYTHING = HistoryQuery()  # that is kept


def unknown(_location: str) -> Format | None:
    """Recognises nothing."""
    return None


def anywhere(_location: str) -> None:
    """Refuses no location."""


@dataclass(frozen=True, kw_only=True)
class TableService:
    store: Store
    audit: AuditTrail
    plugins: Plugins
    warehouses: Warehouses
    wake: Callable[[], None]
    recognise: Callable[[str], Format | None] = unknown  # the format of the table at a location
    check_path: Callable[[str], None] = anywhere  # follows links, and raises where nothing may be served
    real_path: Callable[[str], str] = unresolved  # a location with all links resolved
    first_actions: Mapping[Format, frozenset[Action]] = field(default_factory=dict)  # if none are named; else: all
    heartbeat_timeout: timedelta = HEARTBEAT_TIMEOUT  # of tables that have none of their own

    def add(self, caller: Caller, new: NewTable) -> tuple[Table, bool]:
        """Register a table, or find the registered one unchanged. True when it is new."""
        spec = spec_of(new, self.heartbeat_timeout)
        request = AuditRequest(
            caller=caller, action="table.add", subject=spec.table_name or spec.location, detail=spec_state(spec)
        )

        def allow() -> None:
            caller.need(Role.OPERATOR)
            caller.need_owner(spec.owner)
            check_extra_locations(caller, spec.properties)

        with self.audit.record(request, allow) as outcome:
            table, is_new = self.register(spec, by=caller.name)
            outcome.after = {"table": table.id, "new": is_new}
        return table, is_new

    def register(self, spec: TableSpec, *, by: str = SERVICE) -> tuple[Table, bool]:
        """As ``add``, without a caller: for syncs of catalogs, and runs of one table.

        A missing format is recognised; missing actions default to all that the format has.
        """
        spec = self.checked(spec)
        real = OverlapGuard(store=self.store, real_path=self.real_path).check_new(spec.location)
        now = self.store.clock.now()
        table, is_new = self.store.tables.add(spec, now=now, real=real)
        if is_new:
            actions = ", ".join(sorted(spec.action_types))
            self.note(table, "table.registered", f"{table.name} was registered for {actions} by {by}", by)
            self.wake()
        return table, is_new

    def get(self, id: TableId) -> Table:
        table = self.store.tables.get(id)
        if table.removed:
            raise NotFound(f"table {id} was removed")
        return table

    def has(self, location: str) -> bool:
        """Whether a table is registered at this normalised location."""
        return location in self.store.tables.by_locations([location])

    def names(self, ids: Collection[TableId]) -> Mapping[TableId, str]:
        """The names of these tables, of removed ones too."""
        return {table.id: table.name for table in self.store.tables.by_ids(ids).values()}

    def find(self, text: str) -> Table:
        """A table by its id, its name, db.name, catalog:db.name, or its location."""
        number = read_id(text)
        if number is not None:
            return self.get(TableId(number))
        if "/" in text:
            location = self.warehouses.spell(text)
            found = self.store.tables.by_locations([location])
            if location not in found:
                raise NotFound(f"no table is registered at {location}: lakehand tables add {location}")
            return found[location]
        catalog, colon, name = text.rpartition(":")
        db_name, _, table_name = name.rpartition(".")
        return self.by_name(db_name, table_name, catalog=catalog if colon else None)

    def by_name(self, db_name: str, table_name: str, *, catalog: str | None = None) -> Table:
        named = self.store.tables.by_name(db_name, table_name)
        found = [table for table in named if catalog in (None, table.spec.catalog)]
        called = f"{db_name}.{table_name}" if db_name else table_name
        if not found:
            raise NotFound(f"no table is called {called}: register it with its base path first")
        if len(found) > 1:
            raise Conflict(f"{len(found)} tables are called {called}: name it by its id or location")
        return found[0]

    def list(self, query: TableQuery) -> Page[Table]:
        paging = {"limit": query.limit, "cursor": query.cursor}
        wanted = TableFilter(**{name: value for name, value in values_of(query).items() if name not in paging})
        if wanted.location:
            wanted = replace(wanted, location=self.warehouses.spell(wanted.location))
        return self.store.tables.list(wanted, limit=query.limit, cursor=query.cursor)

    def change(self, caller: Caller, id: TableId, changed: ChangedTable) -> Table:
        table = self.get(id)
        changes = changes_of(changed, table)
        request = request_of(
            caller, verb_of(changes), table, detail=changed_state(changes), before=same_fields(table, changes)
        )

        def allow() -> None:
            need_table(caller, table)
            if changes.owner is not None:
                caller.need_owner(changes.owner)
            check_extra_locations(caller, changes.properties or {}, table.spec.properties)

        with self.audit.record(request, allow) as outcome:
            now_is = self.save(table, changes, caller.name)
            outcome.after = same_fields(now_is, changes)
        return now_is

    def save(self, table: Table, changes: TableChanges, by: str) -> Table:
        if changes.action_types is not None:
            self.plugins.check(table.format, changes.action_types)
        self.check_extra_locations(changes.properties or {})
        now = self.store.clock.now()
        changed = self.store.tables.change(table.id, changes, now=now)
        is_decided_otherwise = changes.properties is not None or changes.scheduling is not None
        if changes.paused is False or is_decided_otherwise:  # now, not at the heartbeat or the next commit
            self.store.schedules.wake([table.id], now=now, decide=True)
        self.note(changed, "table.changed", f"{changed.name} was changed by {by}: {described(changes)}", by)
        self.wake()
        return changed

    def pause(self, caller: Caller, id: TableId) -> Table:
        """Start no more operations for it; running ones continue."""
        return self.change(caller, id, ChangedTable(paused=True))

    def resume(self, caller: Caller, id: TableId) -> Table:
        return self.change(caller, id, ChangedTable(paused=False))

    def remove(self, caller: Caller, id: TableId) -> None:
        table = self.get(id)
        request = request_of(caller, "table.remove", table, before=spec_state(table.spec))
        with self.audit.record(request, lambda: need_table(caller, table)):
            self.take_out(table, caller.name)
            message = f"{table.name} was removed from the service by {caller.name}; its data is untouched"
            self.note(table, "table.removed", message, caller.name)

    def retire(self, id: TableId, *, why: str, by: str = SERVICE) -> None:
        """Remove it without a caller; ``why``: for instance that it was dropped."""
        table = self.get(id)
        self.take_out(table, by)
        self.note(table, "table.retired", f"{table.name} {why} and is served no more", by)

    def take_out(self, table: Table, by: str) -> None:
        now = self.store.clock.now()
        self.store.tables.remove(table.id, now=now)
        end_all_waiting(self.store, table.id, reason="its table was removed")
        for operation in self.store.operations.of_table(table.id, recent=0):
            event = Event(
                kind="operation.removed", message=f"its table was removed by {by}", table=table.id,
                operation=operation.id, detail={"by": by},
            )  # fmt: skip
            self.store.operations.request_cancel(operation.id, now=now, event=event, delete=True)

    def evaluate(self, caller: Caller, id: TableId) -> Table:
        """Evaluate the table at once, changed or not."""
        table = self.get(id)
        with self.audit.record(request_of(caller, "table.evaluate", table), lambda: need_table(caller, table)):
            return self.evaluate_now(id, by=caller.name)

    def evaluate_now(self, id: TableId, *, by: str = SERVICE) -> Table:
        """As ``evaluate``, without a caller."""
        table = self.get(id)
        now = self.store.clock.now()
        self.store.schedules.wake([id], now=now, decide=True)
        self.store.events.add([evaluation_event(table, by)], now=now)
        self.wake()
        return table

    def checked(self, spec: TableSpec) -> TableSpec:
        location = self.warehouses.spell(spec.location)
        self.warehouses.admit(location)
        self.check_extra_locations(spec.properties)
        self.check_path(location)
        known = spec.format or self.recognise(location)
        if known is None:
            named = ", ".join(sorted(self.plugins.formats))
            raise Invalid(f"no table format was recognised at {location}: check the location, or name one of {named}")
        wanted = spec.action_types or self.first_actions.get(known) or self.plugins.default_actions_of(known)
        self.plugins.check(known, wanted)
        if not wanted:
            raise Invalid(f"no plugin does anything for {known} tables: see lakehand plugins")
        name = spec.table_name or location.rsplit("/", 1)[-1][:LONGEST_NAME]
        return replace(spec, location=location, table_name=name, format=known, action_types=wanted)

    def check_extra_locations(self, properties: Mapping[str, str]) -> None:
        """Refuse locations outside of the warehouses. Links are followed at each admission."""
        for extra in extra_locations(properties.get(EXTRA_LOCATIONS, "")):
            self.warehouses.admit(self.warehouses.spell(extra))

    def note(self, table: Table, kind: str, message: str, by: str) -> None:
        event = Event(kind=kind, message=message, table=table.id, detail={"by": by})
        self.store.events.add([event], now=self.store.clock.now())


def end_all_waiting(store: Store, table: TableId, *, reason: str) -> list[OperationId]:
    """In batches, so that no transaction is long."""
    ended: list[OperationId] = []
    while batch := store.operations.end_waiting(table, now=store.clock.now(), reason=reason, limit=BATCH):
        ended += batch
    return ended


def spec_of(new: NewTable, heartbeat_timeout: timedelta) -> TableSpec:
    own, actions = new.heartbeat_timeout, frozenset(map(Action, new.action_types or []))
    timeout = timedelta(seconds=own) if own else heartbeat_timeout
    return TableSpec(**values_of(new) | {"action_types": actions, "heartbeat_timeout": timeout})


def changes_of(changed: ChangedTable, table: Table) -> TableChanges:
    given = values_of(changed)
    if changed.action_types is not None:
        given["action_types"] = merged(table.spec.action_types, changed.action_types)
    if changed.heartbeat_timeout is not None:
        given["heartbeat_timeout"] = timedelta(seconds=changed.heartbeat_timeout)
    return TableChanges(**given)


def merged(present: frozenset[Action], names: Sequence[str]) -> frozenset[Action]:
    """A plain list replaces the actions; signed names add and remove."""
    signs = {name[:1] in ("+", "-") for name in names}
    if len(signs) > 1:
        raise Invalid(
            "the list mixes names and signed changes: give either all actions, or changes (+clustering, -clean)"
        )
    if signs == {True}:
        added, removed = ({Action(name[1:]) for name in names if name[0] == sign} for sign in "+-")
        wanted = (present | added) - removed
    else:
        wanted = frozenset(map(Action, names))
    if not wanted:
        raise Invalid("no action would be left: pause or remove the table instead")
    return wanted


def verb_of(changes: TableChanges) -> str:
    """Pausing and resuming are what people search for; any other change is a change."""
    if set(changed_state(changes)) == {"paused"}:
        return "table.pause" if changes.paused else "table.resume"
    return "table.change"


def check_extra_locations(
    caller: Caller, properties: Mapping[str, str], present: Mapping[str, str] | None = None
) -> None:
    """They widen what may be deleted: a token of one owner cannot reach the folders of others by them."""
    wanted = properties.get(EXTRA_LOCATIONS, "")
    if wanted and wanted != (present or {}).get(EXTRA_LOCATIONS, ""):
        caller.need_everything()


def evaluation_event(table: Table, by: str) -> Event:
    """Counted in one row per table and person: a script may ask every minute."""
    return Event(
        kind="table.evaluate", message=f"an evaluation of {table.name} was asked for by {by}", table=table.id,
        detail={"by": by}, fingerprint=f"table.evaluate:{table.id}:{by}",
    )  # fmt: skip


def described(changes: TableChanges) -> str:
    named = {name: getattr(changes, name) for name in changes.__slots__}
    return ", ".join(f"{name} = {plain(value)}" for name, value in named.items() if value is not None)


def plain(value: object) -> str:
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """The health of a table over time, oldest first."""

    table: Table
    points: Sequence[HealthPoint]
    operations: Sequence[OperationEnd]  # the newest that ended in that time, with the numbers of their results


@dataclass(frozen=True, kw_only=True)
class HealthService:
    store: Store

    def history(self, id: TableId, query: HistoryQuery = EVERYTHING) -> TableHistory:
        """Everything that is kept, or what is not older than ``since``. A removed table has its history, too."""
        table, since = self.store.tables.get(id), query.since
        points = self.store.health.of_table(id, since)
        start = since or (points[0].at if points else None)
        ends = self.store.operations.ends(id, limit=MOST_OPERATIONS)
        shown = [end for end in reversed(ends) if start is None or end.finished_at >= start]
        operations = [replace(end, result=plain_numbers(end.result)) for end in shown]
        return TableHistory(
            table=table, points=points, operations=sorted(operations, key=lambda end: (end.finished_at, end.id))
        )


def plain_numbers(result: Mapping[str, Json]) -> dict[str, Json]:
    """Without texts and lists: a dry run lists up to a thousand files."""
    return {
        name: value for name, value in result.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
