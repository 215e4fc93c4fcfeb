# SPDX-License-Identifier: Apache-2.0
"""Fills a database with tables, schedules, operations and history as a large fleet has them, straight by SQL."""

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

ACTIONS = ("compaction", "optimize", "expire-snapshots", "vacuum", "clean")
FORMATS = ("hudi", "iceberg", "delta", "paimon", "lance")
STATUSES = ("succeeded", "succeeded", "succeeded", "succeeded", "failed", "dropped", "canceled")
SCHEDULES = 3  # per table
FIRST = 1_000_000_000  # id of the first finished operation
HOUR = 3_600_000
DOCUMENT = '{"files_removed":120,"bytes_rewritten":73400320,"before":{"files":4220},"after":{"files":4101}}'
PARAMETERS = '{"target_file_size":134217728,"boundary":{"location":"/lake/sales/orders","inode":1234567}}'
COUNTED = ("operations", "attempts", "files_removed", "bytes_rewritten", "wait_millis", "run_millis")
NUMBERS = ("tables", "files", "small_files", "bytes", "small_bytes")


def now() -> int:
    return int(time.time() * 1000)


def insert(connection: sqlite3.Connection, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
    rows = iter(rows)
    first = next(rows)
    names, values = ", ".join(first), ", ".join(f":{name}" for name in first)
    statement = f"INSERT INTO {table} ({names}) VALUES ({values})"
    connection.execute(statement, first)
    connection.executemany(statement, rows)


def fill_tables(connection: sqlite3.Connection, count: int) -> None:
    """Every hundredth is paused, some are unreadable, some have failed, a tenth is not evaluated yet."""
    at = now()
    insert(connection, "tbl", (table_row(number, at) for number in range(1, count + 1)))
    numbers = range(1, count + 1)
    insert(connection, "schedule", (schedule_row(one, action, at) for one in numbers for action in ACTIONS[:SCHEDULES]))
    insert(connection, "operation", (operation_row(-one, one, "pending", at) for one in range(1, count, 8)))
    insert(connection, "operation", (operation_row(-one, one, "running", at) for one in range(2, min(count, 600), 8)))


def table_row(number: int, at: int) -> dict[str, Any]:
    is_read, is_known = number % 800 != 0, number % 10 != 0
    return {
        "id": number, "db_name": f"db_{number % 97}", "table_name": f"orders_{number}", "owner": f"owner-{number % 40}",
        "queue": f"queue-{number % 4}", "catalog": f"lake-{number % 3}", "base_path": f"s3://lake/sales/orders_{number}",
        "action_types": ",".join(ACTIONS[:SCHEDULES]), "properties": "{}", "priority": 0,
        "format": FORMATS[number % len(FORMATS)], "scheduling": "service", "heartbeat_timeout": 600_000,
        "create_time": at, "update_time": at - number, "paused": number % 100 == 0, "removed": False,
        "change_token": "v" * 120, "probe_due": at + HOUR, "location_key": f"{number:064d}",
        "name_key": f"{number:064d}",
        "problem": None if is_read else "access denied to s3://raw/clicks/_delta_log. Ask its owner.",
        "problem_time": None if is_read else at - number, "health_time": at if is_known else None,
        "files": number * 7 % 5_000 if is_known else None, "small_files": number * 3 % 4_000 if is_known else None,
        "bytes": number * 1_000_003 if is_known else None, "small_bytes": number * 1_009 if is_known else None,
    }  # fmt: skip


def schedule_row(table: int, action: str, at: int) -> dict[str, Any]:
    has_failed = table % 1_000 == 7 and action == ACTIONS[0]
    return {
        "tbl_id": table, "action": action, "due": at + HOUR, "wakes": 0,
        "last_reason": "12 of 40 files are under 96 MB, and 30 are needed",
        "last_look": at if table % 10 else None,
        "failed_operation": FIRST + 4 + 7 * (table // 1_000) if has_failed else None,
    }  # fmt: skip


def operation_row(number: int, table: int, status: str, at: int) -> dict[str, Any]:
    """``number``: the id of a finished one; below zero for others, whose ids must not collide with those."""
    is_final = number > 0
    return {
        "operation_id": number if is_final else None, "tbl_id": table, "instant": f"{at + number}-{number}",
        "job": "delta.optimize", "queue": f"queue-{table % 4}", "owner": f"owner-{table % 40}",
        "action": ACTIONS[number % len(ACTIONS)], "status": status, "engine": "spark", "origin": "coordinator",
        "conflict_class": "table", "parameters": PARAMETERS, "progress": "{}", "result": DOCUMENT,
        "purpose": "4100 of 4220 files are under 384 MB", "reason": "version 12: 120 files became 1", "priority": 0,
        "run_times": 1, "patience": 0, "urgent": False, "is_deleted": False, "cancel_requested": False,
        "retry_on_error": True, "not_before": at, "schedule_time": at, "create_time": at, "update_time": at,
        "submit_time": at, "start_time": at, "finish_time": at - number if is_final else None,
        "failure": '{"reason":"lock","message":"lock provider not reachable. Is ZooKeeper up?","remedy":"retry",'
        '"delay":null}' if status == "failed" else None,
    }  # fmt: skip


def fill_operations(connection: sqlite3.Connection, numbers: Iterable[int], tables: int) -> None:
    """Finished ones, spread over all tables. Waiting ones have been stored before, so these ids begin higher."""
    at = now()
    rows = (operation_row(FIRST + n, 1 + n % tables, STATUSES[n % len(STATUSES)], at) for n in numbers)
    insert(connection, "operation", rows)


def fill_history(connection: sqlite3.Connection) -> None:
    """A month of hours, and of points: every five minutes for two days, then every hour."""
    this_hour = now() // HOUR * HOUR
    hours = [this_hour - HOUR * number for number in range(30 * 24)]
    points = [*(this_hour - HOUR // 12 * number for number in range(576)), *hours[49:]]
    kinds = [(action, status) for action in ACTIONS for status in (*sorted(set(STATUSES)), "retried")]
    insert(connection, "operation_hour", (
        {"hour": hour, "action": action, "status": status, **dict.fromkeys(COUNTED, 1_000)}
        for hour in hours for action, status in kinds
    ))  # fmt: skip
    owners = ["", *(f"owner-{number}" for number in range(20))]
    insert(connection, "fleet_point", (point_row(at, owners, number) for at in points for number in range(len(owners))))


def point_row(at: int, owners: Sequence[str], number: int) -> dict[str, Any]:
    return {"point_time": at, "owner": owners[number], **dict.fromkeys(NUMBERS, 1_000_000 - number)}
