# SPDX-License-Identifier: Apache-2.0
"""What people ask of the operations of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehand.core.services.audit_trail import AuditTrail, need_table, request_of
from lakehand.core.services.operations import OperationService
from lakehand.core.services.tables import TableService
from lakehand.domain.access import Caller
from lakehand.domain.operations import OperationId
from lakehand.domain.tables import TableId


@dataclass(frozen=True, kw_only=True)
class TableRequests:
    tables: TableService
    operations: OperationService
    audit: AuditTrail

    def clear(self, caller: Caller, id: TableId) -> Sequence[OperationId]:
        """Remove every unfinished operation of a table."""
        table = self.tables.get(id)
        request = request_of(caller, "table.clear", table)
        with self.audit.record(request, lambda: need_table(caller, table)) as outcome:
            removed = self.operations.clear(table, by=caller.name)
            outcome.after = {"removed": len(removed)}
        return removed
