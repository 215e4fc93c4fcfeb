# SPDX-License-Identifier: Apache-2.0
"""Converts tables to rows and back."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Row

from lakehand.domain.actions import Action, actions
from lakehand.domain.locations import location_key
from lakehand.domain.tables import Format, Scheduling, Table, TableChanges, TableId, TableSpec
from lakehand.store.clock import span_to_millis, to_time
from lakehand.store.documents import from_document, to_document

key_of = lru_cache(maxsize=20_000)(location_key)


def name_key(db_name: str, table_name: str, catalog: str = "") -> str | None:
    """The unique key of a name; None if the name need not be unique. Each catalog has its own names."""
    parts = [catalog, db_name, table_name] if catalog else [db_name, table_name]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if db_name else None


def spec_row(spec: TableSpec) -> dict[str, Any]:
    return {
        "db_name": spec.db_name,
        "table_name": spec.table_name,
        "base_path": spec.location,
        "location_key": key_of(spec.location),
        "name_key": name_key(spec.db_name, spec.table_name, spec.catalog),
        "owner": spec.owner,
        "queue": spec.queue,
        "priority": spec.priority,
        "action_types": join_actions(spec.action_types),
        "format": spec.format,
        "catalog": spec.catalog,
        "scheduling": str(spec.scheduling),
        "heartbeat_timeout": span_to_millis(spec.heartbeat_timeout),
        "properties": to_document(spec.properties),
    }


def new_row(spec: TableSpec, now: int) -> dict[str, Any]:
    fresh = {"paused": False, "removed": False, "create_time": now, "update_time": now}
    return spec_row(spec) | fresh | {"probe_due": later(spec.heartbeat_timeout, now)}


def revived_row(spec: TableSpec, now: int) -> dict[str, Any]:
    """A table that is registered again keeps only its id and history."""
    fresh = {"paused": False, "removed": False, "change_token": None, "update_time": now}
    return spec_row(spec) | fresh | {"probe_due": later(spec.heartbeat_timeout, now)}


def changed_row(changes: TableChanges, now: int) -> dict[str, Any]:
    wanted = {
        "owner": changes.owner,
        "queue": changes.queue,
        "priority": changes.priority,
        "action_types": None if changes.action_types is None else join_actions(changes.action_types),
        "scheduling": None if changes.scheduling is None else str(changes.scheduling),
        "heartbeat_timeout": None if changes.heartbeat_timeout is None else span_to_millis(changes.heartbeat_timeout),
        "properties": None if changes.properties is None else to_document(changes.properties),
        "probe_due": None if changes.heartbeat_timeout is None else now,  # probe now, then at the new interval
        "paused": changes.paused,
    }
    return {name: value for name, value in wanted.items() if value is not None} | {"update_time": now}


def later(span: timedelta, now: int) -> int:
    """The first probe. Its schedules are due sooner, and set the next one."""
    return now + span_to_millis(span)


def schedule_rows(table: TableId, wanted: Iterable[Action], now: int) -> Sequence[dict[str, Any]]:
    """Schedules that are due at once."""
    return [
        {"tbl_id": table, "action": str(action), "due": now, "wakes": 0, "last_reason": ""} for action in sorted(wanted)
    ]


def to_table(row: Row[Any]) -> Table:
    """By position, in the order of the schema: a probe batch makes tens of thousands of these."""
    (_, _, paused, removed, token, changed, looked, notified, created, updated, probe, _) = row[OTHER_COLUMNS]
    return Table(
        id=TableId(row[0]),
        spec=to_spec(row[SPEC_COLUMNS]),
        paused=bool(paused),
        removed=bool(removed),
        change_token=token,
        changed_at=changed and to_time(changed),
        looked_at=looked and to_time(looked),
        notified_at=notified and to_time(notified),
        created_at=to_time(created),
        updated_at=to_time(updated),
        probe_due=to_time(probe),
    )


SPEC_COLUMNS, OTHER_COLUMNS = slice(1, 13), slice(13, None)  # from db_name to properties, in the order of the schema


@lru_cache(maxsize=20_000)
def to_spec(columns: tuple[Any, ...]) -> TableSpec:
    """Cached: notifications ask for the same tables again and again."""
    (
        db_name,
        table_name,
        base_path,
        owner,
        queue,
        action_types,
        priority,
        format_name,
        catalog,
        scheduling,
        heartbeat_timeout,
        properties,
    ) = columns
    return TableSpec(
        location=base_path,
        format=Format(format_name),
        db_name=db_name,
        table_name=table_name,
        owner=owner,
        queue=queue,
        priority=priority,
        action_types=split_actions(action_types),
        scheduling=Scheduling(scheduling),
        heartbeat_timeout=timedelta(milliseconds=heartbeat_timeout),
        catalog=catalog,
        properties=from_document(properties),
    )


def join_actions(wanted: Iterable[Action]) -> str:
    return ",".join(sorted(wanted))


@lru_cache(maxsize=1000)
def split_actions(text: str) -> frozenset[Action]:
    return actions(text.split(","))
