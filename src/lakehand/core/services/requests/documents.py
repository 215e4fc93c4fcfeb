# SPDX-License-Identifier: Apache-2.0
"""States of tables and operations as the audit trail keeps them."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta

from lakehand.domain.operations import Operation
from lakehand.domain.processes import Json
from lakehand.domain.tables import Table, TableChanges, TableSpec


def spec_state(spec: TableSpec) -> Mapping[str, Json]:
    return {field.name: plain(getattr(spec, field.name)) for field in fields(spec)}


def changed_state(changes: TableChanges) -> Mapping[str, Json]:
    """What is to be changed, as it was given."""
    given = {field.name: getattr(changes, field.name) for field in fields(changes)}
    return {name: plain(value) for name, value in given.items() if value is not None}


def same_fields(table: Table, changes: TableChanges) -> Mapping[str, Json]:
    """The present values of what is to be changed."""
    return {
        name: table.paused if name == "paused" else plain(getattr(table.spec, name)) for name in changed_state(changes)
    }


def operation_state(operation: Operation) -> Mapping[str, Json]:
    return {"operation": operation.id, "status": str(operation.status)}


def plain(value: object) -> Json:
    if isinstance(value, frozenset):
        return sorted(str(one) for one in value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): str(text) for key, text in value.items()}
    return value if isinstance(value, int | bool) else str(value)
