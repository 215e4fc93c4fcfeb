# SPDX-License-Identifier: Apache-2.0
"""Converts tables and their schedules to rows and back."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Row

from lakehand.domain.actions import Action, actions
from lakehand.domain.health import HealthPoint
from lakehand.domain.locations import location_key, path_key
from lakehand.domain.tables import Scheduling, Table, TableChanges, TableId, TableSpec
from lakehand.store.clock import span_to_millis, to_time
from lakehand.store.documents import from_document, to_document

Convert = Callable[[Any], Any]
key_of = lru_cache(maxsize=20_000)(location_key)
# The fields of a spec, in the order of the schema after the id.
SPEC = (
    "db_name", "table_name", "owner", "queue", "catalog", "location", "action_types", "properties", "priority",
    "format", "scheduling", "heartbeat_timeout",
)  # fmt: skip
HEALTH = ("files", "small_files", "bytes", "small_bytes")  # the newest numbers of a table, in the order of the schema


def name_key(db_name: str, table_name: str, catalog: str = "") -> str | None:
    """The unique key of a name; None if the name need not be unique. Each catalog has its own names."""
    parts = [catalog, db_name, table_name] if catalog else [db_name, table_name]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if db_name else None


def join_actions(wanted: Iterable[Action]) -> str:
    return ",".join(sorted(wanted))


@lru_cache(maxsize=1000)
def split_actions(text: str) -> frozenset[Action]:
    return actions(text.split(","))


STORED_AS: Mapping[str, Convert] = {
    "action_types": join_actions,
    "scheduling": str,
    "heartbeat_timeout": span_to_millis,
    "properties": to_document,
}
READ_AS: Mapping[str, Convert] = {
    "action_types": split_actions,
    "scheduling": Scheduling,
    "heartbeat_timeout": lambda millis: timedelta(milliseconds=millis),
    "properties": from_document,
}


def converted(values: Mapping[str, Any], by: Mapping[str, Convert]) -> dict[str, Any]:
    return {name: by[name](value) if name in by else value for name, value in values.items()}


def stored_fields(given: TableSpec | TableChanges) -> dict[str, Any]:
    """The fields that have a value, as they are stored."""
    values = {field.name: getattr(given, field.name) for field in fields(given)}
    return converted({name: value for name, value in values.items() if value is not None}, STORED_AS)


def spec_row(spec: TableSpec, now: int, real: str) -> dict[str, Any]:
    row = stored_fields(spec)
    keys = {
        "location_key": key_of(spec.location), "path_key": path_key(real or spec.location),
        "name_key": name_key(spec.db_name, spec.table_name, spec.catalog),
    }  # fmt: skip
    first_probe = now + span_to_millis(spec.heartbeat_timeout)  # its schedules are due sooner, and set the next one
    fresh = {"paused": False, "removed": False, "update_time": now, "probe_due": first_probe}
    return {"base_path": row.pop("location"), **row, **keys, **fresh}


def new_row(spec: TableSpec, now: int, real: str = "") -> dict[str, Any]:
    """``real``: the location with all links resolved; empty: they were not."""
    return spec_row(spec, now, real) | {"create_time": now}


def revived_row(spec: TableSpec, now: int, real: str = "") -> dict[str, Any]:
    """A table that is registered again keeps only its id and history."""
    forgotten = ("change_token", "problem", "problem_time", "problem_stays", "pause_reason", "health_time", *HEALTH)
    return spec_row(spec, now, real) | dict.fromkeys(forgotten)


def changed_row(changes: TableChanges, now: int) -> dict[str, Any]:
    probe = {} if changes.heartbeat_timeout is None else {"probe_due": now}  # probe now, then at the new interval
    reason = {} if changes.paused is None else {"pause_reason": None}  # from now on it is a person's decision
    return stored_fields(changes) | probe | reason | {"update_time": now}


def schedule_rows(table: TableId, wanted: Iterable[Action], now: int) -> Sequence[dict[str, Any]]:
    """Schedules that are due at once."""
    return [
        {"tbl_id": table, "action": str(action), "due": now, "wakes": 0, "last_reason": ""} for action in sorted(wanted)
    ]


def to_table(row: Row[Any]) -> Table:
    """By position, in the order of the schema: there may be thousands of them at once."""
    created, updated, paused, removed, token, changed, probed, notified, probe = row[13:22]
    why = (paused and row[32]) or ""  # a version that does not know the column may have resumed it
    return Table(
        id=TableId(row[0]), spec=to_spec(row[1:13]), paused=bool(paused), removed=bool(removed), change_token=token,
        changed_at=to_time(changed), probed_at=to_time(probed), notified_at=to_time(notified),
        created_at=to_time(created), updated_at=to_time(updated), probe_due=to_time(probe), problem=row[25] or "",
        problem_since=to_time(row[26]), health=to_health(*row[27:32]), pause_reason=why,
        path_key=row[34] or "",
    )  # fmt: skip


def to_health(at: int | None, *counts: int | None) -> HealthPoint | None:
    if at is None:
        return None
    known = {name: count for name, count in zip(HEALTH, counts, strict=True) if count is not None}
    return HealthPoint(at=to_time(at), numbers=known)


@lru_cache(maxsize=20_000)
def to_spec(columns: tuple[Any, ...]) -> TableSpec:
    """Cached: notifications ask for the same tables again and again."""
    return TableSpec(**converted(dict(zip(SPEC, columns, strict=True)), READ_AS))
