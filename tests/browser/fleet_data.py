# SPDX-License-Identifier: Apache-2.0
"""A fleet with two weeks of history, written straight into a database, so that every page has something to show.

Another instance holds the leases of everything that could be due: a service on this database leaves it as it is.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from lakehand.core.services.audit_trail import AuditTrail
from lakehand.domain.access import AuditRequest, Caller, Role
from lakehand.domain.errors import Forbidden
from lakehand.domain.health import HealthPoint
from lakehand.domain.locations import location_key
from lakehand.domain.processes import Failure, Json
from lakehand.domain.tables import TableId
from lakehand.spi.health import MB, file_numbers
from lakehand.store import SqlStore, open_store, schema
from lakehand.store.documents import failure_document, to_document
from lakehand.store.health import slot_rows
from lakehand.store.migrate import upgrade
from lakehand.store.table_rows import name_key

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
DAYS = 14  # of history
STEP = 3 * HOUR  # between two points of a table
FIRST_START = 5 * HOUR  # of the day in which every table is rewritten
OTHER = "lakehand-b"  # an instance
LONG_AGO, FAR = 90 * DAY, 365 * DAY
ACTIONS = {
    "delta": ("optimize", "vacuum"),
    "iceberg": ("expire-snapshots", "remove-orphans", "rewrite-data", "rewrite-manifests"),
    "hudi": ("clean", "clustering", "compaction"),
    "paimon": ("compact", "expire-snapshots", "remove-orphans"),
    "lance": ("clean-versions", "compact"),
}
REWRITE = {
    "delta": "optimize", "iceberg": "rewrite-data", "hudi": "compaction", "paimon": "compact", "lance": "compact",
}  # fmt: skip
DENIED = "access denied to s3://raw/clicks/_delta_log: the role lakehand-reader may not list this folder"
NO_LOCK = (
    "the lock provider is not reachable: zookeeper-1.internal:2181 refused the connection.\n"
    "  at org.apache.hudi.client.transaction.lock.LockManager.lock(LockManager.java:96)\n"
    "  at org.apache.hudi.client.BaseHoodieTableServiceClient.compact(BaseHoodieTableServiceClient.java:316)"
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One table: how many files it has after a rewrite, and how many small ones a day adds."""

    id: int
    db: str
    name: str
    format: str
    owner: str
    files: int
    per_day: int
    state: str = "healthy"
    queue: str = "default"

    @property
    def location(self) -> str:
        return f"s3://lake/{self.db}/{self.name}"

    @property
    def rewrite(self) -> str:
        return REWRITE[self.format]


FLEET = (
    Sample(1, "sales", "orders", "hudi", "sales", 420, 380, "failed"),
    Sample(2, "sales", "order_items", "iceberg", "sales", 1240, 610),
    Sample(3, "sales", "returns", "delta", "sales", 96, 44),
    Sample(4, "raw", "clicks", "delta", "web", 2210, 1900, "unreadable", "streams"),
    Sample(5, "raw", "page_views", "delta", "web", 3105, 2400, "working", "streams"),
    Sample(6, "raw", "sessions", "paimon", "web", 812, 720, queue="streams"),
    Sample(7, "finance", "ledger", "iceberg", "finance", 311, 52, "needs-work"),
    Sample(8, "finance", "invoices", "iceberg", "finance", 140, 31),
    Sample(9, "ml", "embeddings", "lance", "research", 64, 90),
    Sample(10, "ml", "features", "lance", "research", 128, 75, "paused"),
    Sample(11, "ops", "sensor_readings", "hudi", "plant", 1904, 960, queue="streams"),
    Sample(12, "ops", "maintenance", "delta", "plant", 12, 3, "new"),
)
FAILED, WORKING, UNREADABLE = FLEET[0].id, FLEET[4].id, FLEET[3].id
FAILED_OPERATION = DAYS * (len(FLEET) - 1) + 1  # the first after those that succeeded


class FleetRows:
    """FleetRows by table, at times that are counted back from now."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.today = now - now % DAY
        self.operations = 0
        self.by_table: dict[str, list[dict[str, Any]]] = {table.name: [] for table in schema.metadata.sorted_tables}

    def add(self, table: sa.Table, row: dict[str, Any]) -> None:
        """Every row has every column: they are inserted together."""
        self.by_table[table.name].append({column.name: row.get(column.name) for column in table.columns})


def fill(database: Path) -> None:
    upgrade(f"sqlite:///{database}")
    rows = FleetRows(int(time.time() * 1000))
    known = [one for one in FLEET if one.state != "new"]
    for one in FLEET:
        add_table(rows, one)
    for one in known:
        add_history(rows, one)
    for day in range(DAYS, 0, -1):
        for one in known:
            add_operation(rows, one, "succeeded", rows.today - day * DAY + start_of(one), files=one.per_day)
    for one in known:
        add_last_operation(rows, one)
    add_fleet_history(rows, known)
    engine = sa.create_engine(f"sqlite:///{database}")
    with engine.begin() as tx:
        for table in schema.metadata.sorted_tables:
            if given := rows.by_table[table.name]:
                tx.execute(sa.insert(table).prefix_with("OR REPLACE"), given)
    engine.dispose()
    add_audit(open_store(f"sqlite:///{database}"))


def add_audit(store: SqlStore) -> None:
    """Two requests that were carried out, and one that was refused."""
    orders, trail = next(one for one in FLEET if one.name == "orders"), AuditTrail(store=store)
    alice = Caller(name="alice", role=Role.OPERATOR, owner="sales", address="10.4.1.7", via="dashboard")
    eve = Caller(name="eve", role=Role.VIEWER, address="10.4.1.9", via="rest")
    given: dict[str, Json] = {"action": orders.rewrite, "dry_run": False}
    asked: list[tuple[Caller, str, dict[str, Json], dict[str, Json], dict[str, Json]]] = [
        (alice, "operation.submit", given, {}, {"operation": FAILED_OPERATION, "status": "pending"}),
        (alice, "table.change", {"priority": 5}, {"priority": 0}, {"priority": 5}),
        (eve, "table.pause", {"paused": True}, {"paused": False}, {}),
    ]
    for caller, action, detail, before, after in asked:
        request = AuditRequest(
            caller=caller, action=action, detail=detail, before=before, subject=f"{orders.db}.{orders.name}",
            table=TableId(orders.id),
        )  # fmt: skip
        with suppress(Forbidden), trail.record(request) as outcome:
            caller.need(Role.OPERATOR)
            outcome.after = after
    store.close()


def inspect_again(database: Path, table: int, files: int) -> None:
    """One more point in the history of a table, as its next inspection stores it."""
    point = HealthPoint(at=datetime.now(timezone.utc), numbers=file_numbers([190 * MB] * files, []))
    engine = sa.create_engine(f"sqlite:///{database}")
    with engine.begin() as tx:
        tx.execute(sa.insert(schema.health_point).prefix_with("OR REPLACE"), slot_rows(TableId(table), point))
    engine.dispose()


def add_table(rows: FleetRows, one: Sample) -> None:
    now, is_new = rows.now, one.state == "new"
    files, small = counts_at(rows, one, now)
    is_broken = one.state == "unreadable"
    rows.add(schema.tbl, {
        "id": one.id, "db_name": one.db, "table_name": one.name, "owner": one.owner, "queue": one.queue, "catalog": "",
        "base_path": one.location, "action_types": ",".join(sorted(ACTIONS[one.format])), "properties": "{}",
        "priority": 5 if one.db == "sales" else 0, "format": one.format, "scheduling": "service",
        "heartbeat_timeout": 10 * MINUTE, "create_time": now - LONG_AGO, "update_time": now - 3 * DAY,
        "paused": one.state == "paused", "removed": False, "change_token": "token", "change_time": now - 7 * MINUTE,
        "look_time": now - 2 * MINUTE, "notify_time": now - 7 * MINUTE if one.format == "hudi" else None,
        "probe_due": now + HOUR, "location_key": location_key(one.location), "name_key": name_key(one.db, one.name),
        "problem": DENIED if is_broken else None, "problem_time": now - 40 * MINUTE if is_broken else None,
        "health_time": None if is_new else now - 2 * MINUTE, "files": None if is_new else files,
        "small_files": None if is_new else small, "bytes": None if is_new else (files - small) * 190 * MB + small * MB,
        "small_bytes": None if is_new else small * MB,
    })  # fmt: skip
    for action in ACTIONS[one.format]:
        add_schedule(rows, one, action, small)
    rows.add(schema.event, event_row(now - LONG_AGO, "table.registered", f"{one.location} by alice", table=one.id))


def add_schedule(rows: FleetRows, one: Sample, action: str, small: int) -> None:
    is_new = one.state == "new"
    reason = f"{small} small files, and 2 000 are needed" if action == one.rewrite else "nothing is past its retention"
    rows.add(schema.schedule, {
        "tbl_id": one.id, "action": action, "due": rows.now + 9 * MINUTE, "wakes": 0, **lease(rows),
        "last_look": None if is_new else rows.now - 2 * MINUTE, "last_start": None if is_new else rows.now - 9 * HOUR,
        "last_reason": "" if is_new else reason, "failed_operation": None,
    })  # fmt: skip


def lease(rows: FleetRows) -> dict[str, Any]:
    return {"lease_holder": OTHER, "lease_token": "token", "lease_until": rows.now + FAR}


def add_history(rows: FleetRows, one: Sample) -> None:
    for at in times(rows):
        files, small = counts_at(rows, one, at)
        numbers = {**file_numbers([190 * MB] * (files - small) + [MB // 2] * small, [MB // 2] * small), "snapshots": 40}
        point = HealthPoint(at=datetime.fromtimestamp(at / 1000, timezone.utc), numbers=numbers)
        for row in slot_rows(TableId(one.id), point):
            rows.add(schema.health_point, row)


def times(rows: FleetRows) -> Iterator[int]:
    yield from range(rows.today - DAYS * DAY, rows.now - 2 * MINUTE, STEP)
    yield rows.now - 2 * MINUTE


def start_of(one: Sample) -> int:
    return FIRST_START + one.id * 20 * MINUTE


def counts_at(rows: FleetRows, one: Sample, at: int) -> tuple[int, int]:
    """Files, and small files: these grow until the rewrite of the day before yesterday, or of yesterday."""
    since = (at - rows.today - start_of(one)) % DAY if at < rows.today else at - rows.today + DAY - start_of(one)
    small = one.per_day * since // DAY
    return one.files + small + (at - rows.today + DAYS * DAY) // DAY, small


def add_last_operation(rows: FleetRows, one: Sample) -> None:
    """What the state of the table says."""
    if one.state == "failed":
        number = add_operation(rows, one, "failed", rows.now - 2 * HOUR, attempts=3)
        schedule = next(row for row in rows.by_table["schedule"] if (row["tbl_id"], row["action"]) == key(one))
        schedule["failed_operation"] = number
    elif one.state == "working":
        add_operation(rows, one, "running", rows.now - 4 * MINUTE)
    elif one.state == "needs-work":
        add_operation(rows, one, "pending", rows.now - 3 * MINUTE, attempts=0)


def key(one: Sample) -> tuple[int, str]:
    return one.id, one.rewrite


def add_operation(rows: FleetRows, one: Sample, status: str, start: int, *, files: int = 0, attempts: int = 1) -> int:
    rows.operations += 1
    number, took = rows.operations, (40 + 11 * one.id) * 1000
    is_final, is_running = status in ("succeeded", "failed"), status == "running"
    end = start + took * max(attempts, 1) + (attempts - 1) * 2 * MINUTE if is_final else None
    failure = failure_document(Failure(reason="lock-provider", message=NO_LOCK)) if status == "failed" else None
    texts = {
        "succeeded": f"{files} small files became {files // 60 + 1}",
        "failed": "it failed 3 times",
        "running": "the engine works on it",
        "pending": "the queue finance has its limit of running operations",
    }
    progress: dict[str, Json] = (
        {"phase": "rewriting", "percent": 62, "tasks_done": 31, "tasks_total": 50} if is_running else {}
    )
    result: dict[str, Json] = (
        {"files_removed": files, "files_added": files // 60 + 1, "bytes_rewritten": files * MB} if files else {}
    )
    rows.add(schema.operation, {
        "operation_id": number, "tbl_id": one.id, "instant": f"{start}-{number}", "job": f"{one.format}.{one.rewrite}",
        "queue": one.queue, "owner": one.owner, "action": one.rewrite, "status": status, "engine": "spark",
        "origin": "coordinator", "conflict_class": "table", "parameters": "{}", "progress": to_document(progress),
        "result": to_document(result), "purpose": f"{files or one.per_day} small files of under 96 MB",
        "reason": texts[status], "priority": 0, "run_times": attempts, "patience": 0, "urgent": False,
        "is_deleted": False, "cancel_requested": False, "retry_on_error": True,
        "not_before": rows.now + FAR if status == "pending" else start, "schedule_time": start,
        "create_time": start - 20_000, "update_time": end or start, "submit_time": start if attempts else None,
        "start_time": start if attempts else None, "finish_time": end,
        "failure": failure,
        "handle": f"lakehand-{number}", **(lease(rows) if is_running else {}),
        "active_slot": f"{one.id}:table" if is_running else None,
    })  # fmt: skip
    for attempt in range(attempts):
        begin = start + attempt * (took + 2 * MINUTE)
        outcome = "failed" if status == "failed" else status
        rows.add(schema.attempt, {
            "operation_id": number, "number": attempt + 1, "handle": f"lakehand-{number}-{attempt}",
            "instance": OTHER, "engine": "spark", "outcome": outcome if is_final else "", "start_time": begin,
            "result": "{}", "finish_time": begin + took if is_final else None,
            "failure": failure,
        })  # fmt: skip
    if is_final:
        message = f"{one.rewrite} {texts[status]}"
        rows.add(schema.event, event_row(end or start, f"operation.{status}", message, table=one.id, operation=number))
    return number


def event_row(at: int, kind: str, message: str, **about: int) -> dict[str, Any]:
    return {
        "kind": kind, "message": message, "tbl_id": about.get("table"), "operation_id": about.get("operation"),
        "detail": "{}", "times": 1, "first_time": at, "event_time": at,
    }  # fmt: skip


def add_fleet_history(rows: FleetRows, known: Sequence[Sample]) -> None:
    for at in range(rows.now - rows.now % HOUR - 7 * DAY, rows.now, HOUR):
        for owner in ["", *sorted({one.owner for one in known})]:
            counts = [counts_at(rows, one, at) for one in known if owner in ("", one.owner)]
            files, small = sum(count[0] for count in counts), sum(count[1] for count in counts)
            rows.add(schema.fleet_point, {
                "point_time": at, "owner": owner, "tables": len(counts), "files": files, "small_files": small,
                "bytes": files * 190 * MB, "small_bytes": small * MB,
            })  # fmt: skip
    for hour in range(24):
        at, busy = rows.now - rows.now % HOUR - hour * HOUR, 6 + (hour * 7) % 11
        for status, count in (("succeeded", busy), ("retried", int(hour % 5 == 2)), ("failed", int(hour == 2))):
            if count:
                rows.add(schema.operation_hour, {
                    "hour": at, "action": "optimize", "status": status, "operations": count, "attempts": count,
                    "files_removed": 410 * count if status == "succeeded" else 0,
                    "bytes_rewritten": 3_100 * MB * count if status == "succeeded" else 0,
                    "wait_millis": 21_000 * count, "run_millis": 74_000 * count,
                })  # fmt: skip
