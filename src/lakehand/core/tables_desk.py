# SPDX-License-Identifier: Apache-2.0
"""What people may ask about tables: register, list, change, pause, remove. Every face calls this one desk."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from lakehand.core.plugins import Plugins
from lakehand.core.ports import Page, Store, TableFilter
from lakehand.domain.errors import Conflict, Invalid, NotFound
from lakehand.domain.events import Event
from lakehand.domain.locations import Warehouses, normalise
from lakehand.domain.tables import Format, Table, TableChanges, TableId, TableSpec

LONGEST_NAME = 250


@dataclass(frozen=True, kw_only=True)
class TablesDesk:
    store: Store
    plugins: Plugins
    warehouses: Warehouses
    wake: Callable[[], None]

    def add(self, spec: TableSpec) -> tuple[Table, bool]:
        """Register a table; one that is registered already is found as it is. True when it is new."""
        spec = self.checked(spec)
        now = self.store.clock.now()
        table, is_new = self.store.tables.add(spec, now=now)
        if is_new:
            self.note(
                table, "table.registered", f"{table.name} was registered for {', '.join(sorted(spec.action_types))}"
            )
            self.wake()
        return table, is_new

    def get(self, id: TableId) -> Table:
        table = self.store.tables.get(id)
        if table.removed:
            raise NotFound(f"table {id} was removed")
        return table

    def find(self, text: str) -> Table:
        """A table by what people call it: its id, its name, db.name, or its location."""
        if text.isdigit():
            return self.get(TableId(int(text)))
        if "/" in text:
            location = normalise(text)
            found = self.store.tables.by_locations([location])
            if location not in found:
                raise NotFound(f"no table is registered at {location}: lakehand tables add {location}")
            return found[location]
        db_name, _, table_name = text.rpartition(".")
        return self.by_name(db_name, table_name)

    def by_name(self, db_name: str, table_name: str) -> Table:
        found = self.store.tables.by_name(db_name, table_name)
        called = f"{db_name}.{table_name}" if db_name else table_name
        if not found:
            raise NotFound(f"no table is called {called}: register it with its base path first")
        if len(found) > 1:
            raise Conflict(f"{len(found)} tables are called {called}: name it by its id or location")
        return found[0]

    def list(self, wanted: TableFilter, *, limit: int, cursor: str | None) -> Page[Table]:
        if wanted.location:
            wanted = replace(wanted, location=normalise(wanted.location))
        return self.store.tables.list(wanted, limit=limit, cursor=cursor)

    def change(self, id: TableId, changes: TableChanges) -> Table:
        table = self.get(id)
        if changes.action_types is not None:
            self.plugins.check(table.format, changes.action_types)
        changed = self.store.tables.change(id, changes, now=self.store.clock.now())
        self.note(changed, "table.changed", f"{changed.name} was changed: {described(changes)}")
        self.wake()
        return changed

    def remove(self, id: TableId) -> None:
        table, now = self.get(id), self.store.clock.now()
        self.store.tables.remove(id, now=now)
        for operation in self.store.operations.of_table(id, recent=0):
            told = Event(kind="operation.removed", message="its table was removed", table=id, operation=operation.id)
            self.store.operations.request_cancel(operation.id, now=now, event=told, delete=True)
        self.note(table, "table.removed", f"{table.name} was removed from the service; its data is untouched")

    def look_now(self, id: TableId) -> Table:
        """Have the table looked at and decided upon at once."""
        table = self.get(id)
        self.store.schedules.wake([id], now=self.store.clock.now(), decide=True)
        self.wake()
        return table

    def checked(self, spec: TableSpec) -> TableSpec:
        location = normalise(spec.location)
        self.warehouses.admit(location)
        self.plugins.check(spec.format, spec.action_types)
        if not spec.action_types:
            raise Invalid(
                f"name at least one action; {spec.format} has {', '.join(self.plugins.actions_of(spec.format))}"
            )
        name = spec.table_name or location.rsplit("/", 1)[-1][:LONGEST_NAME]
        return replace(spec, location=location, table_name=name, format=Format(spec.format))

    def note(self, table: Table, kind: str, message: str) -> None:
        self.store.events.add([Event(kind=kind, message=message, table=table.id)], now=self.store.clock.now())


def described(changes: TableChanges) -> str:
    named = {name: getattr(changes, name) for name in changes.__slots__}
    return ", ".join(f"{name} = {plain(value)}" for name, value in named.items() if value is not None)


def plain(value: object) -> str:
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
