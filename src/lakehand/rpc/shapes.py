# SPDX-License-Identifier: Apache-2.0
"""Messages for what several services show: tables, operations, events."""

from lakehand.domain.events import StoredEvent
from lakehand.domain.operations import Operation, Status
from lakehand.domain.tables import Table
from lakehand.rpc.generated import event_pb2, operation_pb2, table_pb2
from lakehand.rpc.messages import fill


def table_name(table: Table) -> table_pb2.TableName:
    return fill(table_pb2.TableName(), table.spec, table)


def table_message(table: Table) -> table_pb2.Table:
    return fill(table_pb2.Table(), table.spec, table, action_types=sorted(table.spec.action_types))


def event_message(stored: StoredEvent) -> event_pb2.Event:
    return fill(event_pb2.Event(), stored.event, stored)


def operation_message(operation: Operation, table: Table) -> operation_pb2.Operation:
    next_try = operation.not_before if operation.status is Status.PENDING else None
    return fill(
        operation_pb2.Operation(), operation.process, operation, table=table_name(table),
        attempts=operation.run_times, next_try=next_try,
    )  # fmt: skip
