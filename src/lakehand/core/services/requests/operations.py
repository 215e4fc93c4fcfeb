# SPDX-License-Identifier: Apache-2.0
"""What people ask of operations."""

from collections.abc import Mapping
from dataclasses import dataclass

from lakehand.core.services.audit_trail import AuditTrail, need_table, operation_state, request_of
from lakehand.core.services.operations import OperationService
from lakehand.domain.access import Caller
from lakehand.domain.actions import Action
from lakehand.domain.errors import NotFound
from lakehand.domain.operations import Operation, OperationId
from lakehand.domain.processes import Instant, Json
from lakehand.domain.row_checks import PARAMETER, RowMode
from lakehand.domain.tables import Table


@dataclass(frozen=True, kw_only=True)
class OperationRequests:
    operations: OperationService
    audit: AuditTrail

    def submit(
        self,
        caller: Caller,
        table: Table,
        action: Action,
        *,
        instant: Instant | None = None,
        parameters: Mapping[str, Json] | None = None,
        dry_run: bool = False,
        confirm: bool = False,
        verify_rows: RowMode = RowMode.OFF,
    ) -> tuple[Operation, bool]:
        """Store an operation; the same (table, instant) again is the same operation. True when it is new."""
        detail: dict[str, Json] = {"action": str(action), "dry_run": dry_run, "confirm": confirm}
        detail |= {"instant": str(instant)} if instant else {}
        detail |= {PARAMETER: str(verify_rows)} if verify_rows is not RowMode.OFF else {}
        request = request_of(caller, "operation.submit", table, detail=detail)
        with self.audit.record(request, lambda: need_table(caller, table)) as outcome:
            operation, is_new = self.operations.submit(
                table, action, instant, parameters or {}, origin=caller.name, dry_run=dry_run, confirm=confirm,
                verify_rows=verify_rows,
            )  # fmt: skip
            outcome.after = {**operation_state(operation), "new": is_new}
        return operation, is_new

    def cancel(self, caller: Caller, id: OperationId, *, delete: bool = False) -> Operation:
        """Ask for the end of an operation; ``delete`` also removes it from the service's care for good."""
        known, table = self.known(id)
        verb = "operation.remove" if delete else "operation.cancel"
        request = request_of(caller, verb, table, operation=id, before=operation_state(known))
        with self.audit.record(request, lambda: need_table(caller, table)) as outcome:
            operation = self.operations.cancel(id, by=caller.name, delete=delete)
            outcome.after = operation_state(operation)
        return operation

    def remove(self, caller: Caller, table: Table, instant: Instant) -> Operation:
        """RFC-43's remove: the plan was rolled back by its writer, or is no longer wanted."""
        found = self.operations.store.operations.find(table.id, instant)
        if found is None:
            raise NotFound(f"{table.name} has no operation at {instant}")
        return self.cancel(caller, found.id, delete=True)

    def retry(self, caller: Caller, id: OperationId) -> Operation:
        known, table = self.known(id)
        request = request_of(caller, "operation.retry", table, operation=id, before=operation_state(known))
        with self.audit.record(request, lambda: need_table(caller, table)) as outcome:
            operation = self.operations.retry(id, by=caller.name)
            outcome.after = operation_state(operation)
        return operation

    def known(self, id: OperationId) -> tuple[Operation, Table]:
        store = self.operations.store
        operation = store.operations.get(id)
        return operation, store.tables.get(operation.table)
