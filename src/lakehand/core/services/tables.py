# SPDX-License-Identifier: Apache-2.0
"""Requests about tables: register, list, change, pause, remove. The API and the loops call it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta

from lakehand.api.fields import values_of
from lakehand.api.tables import ChangedTable, NewTable, TableQuery
from lakehand.core.overlaps import OverlapGuard, unresolved
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import Page, Store, TableFilter
from lakehand.core.services.operations import end_all_waiting
from lakehand.domain.actions import Action
from lakehand.domain.boundaries import EXTRA_LOCATIONS, extra_locations
from lakehand.domain.errors import Conflict, Invalid, NotFound
from lakehand.domain.events import Event
from lakehand.domain.locations import Warehouses
from lakehand.domain.numbers import read_id
from lakehand.domain.tables import HEARTBEAT_TIMEOUT, Format, Table, TableChanges, TableId, TableSpec

LONGEST_NAME = 250
SERVICE = "lakehand"  # the name in events that no person caused


def unknown(_location: str) -> Format | None:
    """Recognises nothing."""
    return None


def anywhere(_location: str) -> None:
    """Refuses no location."""


@dataclass(frozen=True, kw_only=True)
class TableService:
    store: Store
    plugins: Plugins
    warehouses: Warehouses
    wake: Callable[[], None]
    recognise: Callable[[str], Format | None] = unknown  # the format of the table at a location
    check_path: Callable[[str], None] = anywhere  # follows links, and raises where nothing may be served
    real_path: Callable[[str], str] = unresolved  # a location with all links resolved
    first_actions: Mapping[Format, frozenset[Action]] = field(default_factory=dict)  # if none are named; else: all

    def add(self, spec: TableSpec, *, by: str = SERVICE) -> tuple[Table, bool]:
        """Register a table, or find the registered one unchanged. True when it is new.

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
        wanted = TableFilter(**{one.name: getattr(query, one.name) for one in fields(TableFilter)})
        if wanted.location:
            wanted = replace(wanted, location=self.warehouses.spell(wanted.location))
        return self.store.tables.list(wanted, limit=query.limit, cursor=query.cursor)

    def change(self, id: TableId, changes: TableChanges, *, by: str = SERVICE) -> Table:
        table = self.get(id)
        if changes.action_types is not None:
            self.plugins.check(table.format, changes.action_types)
        self.check_extra_locations(changes.properties or {})
        now = self.store.clock.now()
        changed = self.store.tables.change(id, changes, now=now)
        is_decided_otherwise = changes.properties is not None or changes.scheduling is not None
        if changes.paused is False or is_decided_otherwise:  # now, not at the heartbeat or the next commit
            self.store.schedules.wake([id], now=now, decide=True)
        self.note(changed, "table.changed", f"{changed.name} was changed by {by}: {described(changes)}", by)
        self.wake()
        return changed

    def remove(self, id: TableId, *, why: str = "", by: str = SERVICE) -> None:
        """Remove a table from the service. ``why``: the reason of a retirement, for instance that it was dropped."""
        table, now = self.get(id), self.store.clock.now()
        self.store.tables.remove(id, now=now)
        end_all_waiting(self.store, id, reason="its table was removed")
        for operation in self.store.operations.of_table(id, recent=0):
            event = Event(
                kind="operation.removed", message=f"its table was removed by {by}", table=id, operation=operation.id,
                detail={"by": by},
            )  # fmt: skip
            self.store.operations.request_cancel(operation.id, now=now, event=event, delete=True)
        kind, text = ("table.retired", f"{why} and is served no more") if why else ("table.removed", removed_by(by))
        self.note(table, kind, f"{table.name} {text}", by)

    def evaluate_now(self, id: TableId, *, by: str = SERVICE) -> Table:
        """Evaluate the table at once, changed or not."""
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


def spec_of(new: NewTable, heartbeat_timeout: timedelta = HEARTBEAT_TIMEOUT) -> TableSpec:
    """``heartbeat_timeout``: of tables that have none of their own."""
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


def removed_by(name: str) -> str:
    return f"was removed from the service by {name}; its data is untouched"


def evaluation_event(table: Table, by: str) -> Event:
    """Counted in one row per table and person: a script may ask every minute."""
    return Event(
        kind="table.look", message=f"an evaluation of {table.name} was asked for by {by}", table=table.id,
        detail={"by": by}, fingerprint=f"table.look:{table.id}:{by}",
    )  # fmt: skip


def described(changes: TableChanges) -> str:
    named = {name: getattr(changes, name) for name in changes.__slots__}
    return ", ".join(f"{name} = {plain(value)}" for name, value in named.items() if value is not None)


def plain(value: object) -> str:
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
