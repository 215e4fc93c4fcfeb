# SPDX-License-Identifier: Apache-2.0
"""What people ask of tables."""

from collections.abc import Mapping
from dataclasses import dataclass

from lakehand.core.services.audit_trail import (
    AuditTrail,
    changed_state,
    need_table,
    request_of,
    same_fields,
    spec_state,
)
from lakehand.core.services.tables import TableService
from lakehand.domain.access import AuditRequest, Caller, Role
from lakehand.domain.locations import EXTRA_LOCATIONS
from lakehand.domain.tables import Table, TableChanges, TableId, TableSpec


@dataclass(frozen=True, kw_only=True)
class TableRequests:
    tables: TableService
    audit: AuditTrail

    def add(self, caller: Caller, spec: TableSpec) -> tuple[Table, bool]:
        """Register a table, or find the registered one unchanged. True when it is new."""
        request = AuditRequest(
            caller=caller, action="table.add", subject=spec.table_name or spec.location, detail=spec_state(spec)
        )

        def allow() -> None:
            caller.need(Role.OPERATOR)
            caller.need_owner(spec.owner)
            check_extra_locations(caller, spec.properties)

        with self.audit.record(request, allow) as outcome:
            table, is_new = self.tables.add(spec, by=caller.name)
            outcome.after = {"table": table.id, "new": is_new}
        return table, is_new

    def change(self, caller: Caller, id: TableId, changes: TableChanges) -> Table:
        table = self.tables.get(id)
        request = request_of(
            caller, verb_of(changes), table, detail=changed_state(changes), before=same_fields(table, changes)
        )

        def allow() -> None:
            need_table(caller, table)
            if changes.owner is not None:
                caller.need_owner(changes.owner)
            check_extra_locations(caller, changes.properties or {}, table.spec.properties)

        with self.audit.record(request, allow) as outcome:
            changed = self.tables.change(id, changes, by=caller.name)
            outcome.after = same_fields(changed, changes)
        return changed

    def remove(self, caller: Caller, id: TableId) -> None:
        table = self.tables.get(id)
        request = request_of(caller, "table.remove", table, before=spec_state(table.spec))
        with self.audit.record(request, lambda: need_table(caller, table)):
            self.tables.remove(id, by=caller.name)

    def evaluate(self, caller: Caller, id: TableId) -> Table:
        table = self.tables.get(id)
        request = request_of(caller, "table.evaluate", table)
        with self.audit.record(request, lambda: need_table(caller, table)):
            return self.tables.evaluate_now(id, by=caller.name)


def verb_of(changes: TableChanges) -> str:
    """Pausing and resuming are what people look for; any other change is a change."""
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
