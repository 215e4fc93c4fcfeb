# SPDX-License-Identifier: Apache-2.0
"""Requests about tables and operations."""

from dataclasses import dataclass

from lakehand.core.services.audit_trail import AuditTrail
from lakehand.core.services.operations import OperationService
from lakehand.core.services.requests.operations import OperationRequests
from lakehand.core.services.requests.tables import TableRequests
from lakehand.core.services.tables import TableService
from lakehand.domain.cached_property import cached_property


@dataclass(frozen=True, kw_only=True)
class Requests:
    table_service: TableService
    operation_service: OperationService
    audit: AuditTrail

    @cached_property
    def tables(self) -> TableRequests:
        return TableRequests(tables=self.table_service, operations=self.operation_service, audit=self.audit)

    @cached_property
    def operations(self) -> OperationRequests:
        return OperationRequests(operations=self.operation_service, audit=self.audit)
