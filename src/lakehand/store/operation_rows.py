# SPDX-License-Identifier: Apache-2.0
"""Converts operations and attempts to rows and back."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from lakehand.core.ports import OperationEnd
from lakehand.domain.actions import Action
from lakehand.domain.events import Event
from lakehand.domain.operations import (
    FOLLOWED,
    Attempt,
    AttemptEnd,
    ExternalId,
    Lease,
    NewOperation,
    Operation,
    OperationId,
    Status,
    external_id,
)
from lakehand.domain.processes import TableProcess
from lakehand.domain.rules import Busy, Candidate
from lakehand.domain.tables import Format, TableId
from lakehand.store.clock import millis_or_none, to_millis, to_time
from lakehand.store.documents import failure_document, from_document, storable_text, to_document, to_failure

RELEASED = {"lease_holder": None, "lease_token": None, "lease_until": None, "active_slot": None, "place": None}


def process_row(process: TableProcess) -> dict[str, Any]:
    return {
        "action": str(process.action),
        "engine": process.engine,
        "job": process.job,
        "plan_instant": process.instant,
        "parameters": to_document(process.parameters),
        "conflict_class": process.conflict_class,
        "urgent": process.urgent,
        "purpose": storable_text(process.reason),
    }


def followed_row(new: NewOperation, table: Row[Any]) -> dict[str, Any]:
    """What a request may set, and otherwise follows the table."""
    row: dict[str, Any] = {}
    for name in FOLLOWED:
        own = getattr(new, name)
        row |= {name: getattr(table, name) if own is None else own, f"has_own_{name}": None if own is None else True}
    return row


def new_row(new: NewOperation, table: Row[Any], now: int) -> dict[str, Any]:
    """``table``: the row of its table, with what it follows."""
    due = now if new.due_at is None else to_millis(new.due_at)
    return {
        **process_row(new.process),
        "engine": new.wanted_engine or new.process.engine,
        "wanted_engine": new.wanted_engine,
        "tbl_id": new.table,
        "instant": new.instant,
        "status": Status.PENDING.value,
        **followed_row(new, table),
        "origin": new.origin,
        "retry_on_error": new.retry_on_error is not False,
        "run_times": 0,
        "patience": 0,
        "is_deleted": False,
        "cancel_requested": False,
        "not_before": due,
        "reason": "",
        "progress": "{}",
        "result": "{}",
        "schedule_time": due,
        "create_time": now,
        "update_time": now,
    }


def saved_row(operation: Operation, now: int) -> dict[str, Any]:
    """What its holder may write: all but its identity and lease, and what belongs to others, as flags and queue."""
    return process_row(operation.process) | {
        "status": operation.status.value,
        "run_times": operation.run_times,
        "patience": operation.deferrals,
        "not_before": to_millis(operation.not_before),
        "handle": operation.handle,
        "reason": storable_text(operation.reason),
        "progress": to_document(operation.progress),
        "result": to_document(operation.result),
        "failure": failure_document(operation.failure),
        "schedule_time": to_millis(operation.due_at),
        "update_time": now,
        "submit_time": millis_or_none(operation.submitted_at),
        "start_time": millis_or_none(operation.started_at),
        "finish_time": millis_or_none(operation.finished_at),
    }


def to_operation(row: Row[Any]) -> Operation:
    return Operation(
        id=row.operation_id,
        table=row.tbl_id,
        instant=row.instant,
        process=to_process(row),
        status=Status(row.status),
        priority=row.priority,
        queue=row.queue,
        owner=row.owner,
        not_before=to_time(row.not_before),
        origin=row.origin,
        retry_on_error=bool(row.retry_on_error),
        wanted_engine=row.wanted_engine,
        run_times=row.run_times,
        deferrals=row.patience,
        lease=row.lease_token and Lease(holder=row.lease_holder, token=row.lease_token, until=to_time(row.lease_until)),
        handle=row.handle,
        cancel_requested=bool(row.cancel_requested),
        is_deleted=bool(row.is_deleted),
        reason=row.reason,
        progress=from_document(row.progress),
        result=from_document(row.result),
        failure=to_failure(row.failure),
        due_at=to_time(row.schedule_time),
        created_at=to_time(row.create_time),
        updated_at=to_time(row.update_time),
        submitted_at=to_time(row.submit_time),
        started_at=to_time(row.start_time),
        finished_at=to_time(row.finish_time),
    )


def to_process(row: Row[Any]) -> TableProcess:
    return TableProcess(
        action=Action(row.action),
        parameters=from_document(row.parameters),
        urgent=bool(row.urgent),
        job=row.job,
        engine=row.engine,
        instant=row.plan_instant,
        conflict_class=row.conflict_class,
        reason=row.purpose,
    )


def attempt_row(attempt: Attempt) -> dict[str, Any]:
    begun = {"number": attempt.number, "engine": attempt.engine, "instance": attempt.instance}
    return begun | {"start_time": to_millis(attempt.started_at)} | end_row(attempt, attempt.finished_at)


def end_row(ended: Attempt | AttemptEnd, at: datetime | None) -> dict[str, Any]:
    return {
        "finish_time": millis_or_none(at),
        "outcome": ended.outcome,
        "failure": failure_document(ended.failure),
        "result": to_document(ended.result),
    }


def external_row(external: ExternalId) -> dict[str, Any]:
    return {"external_id": external.id, "external_url": external.url}


def to_attempt(row: Row[Any]) -> Attempt:
    """Whatever wrote the row: a link that is shown is one of the web."""
    outside = external_id(row.external_id, row.external_url)
    plain = {name: getattr(row, name) for name in ("number", "handle", "engine", "instance", "outcome")}
    started, finished = to_time(row.start_time), to_time(row.finish_time)
    failure, result = to_failure(row.failure), from_document(row.result)
    return Attempt(
        operation=row.operation_id, started_at=started, finished_at=finished, failure=failure, result=result,
        external_id=outside.id if outside else None, external_url=outside.url if outside else None, **plain,
    )  # fmt: skip


def about(event: Event, id: OperationId, table: TableId) -> Event:
    """The event, with the operation and the table that it came along with."""
    return replace(event, operation=event.operation or id, table=event.table or table)


def to_end(row: Row[Any]) -> OperationEnd:
    return OperationEnd(
        id=OperationId(row.operation_id), action=Action(row.action), status=Status(row.status),
        finished_at=to_time(row.finish_time), result=from_document(row.result),
    )  # fmt: skip


def to_candidate(row: Row[Any]) -> Candidate:
    return Candidate(operation=to_operation(row), format=Format(row.table_format))


def to_busy(row: Row[Any]) -> Busy:
    return Busy(
        table=row.tbl_id,
        slot=f"{row.tbl_id}:{row.conflict_class}",
        queue=row.queue,
        owner=row.owner,
        format=row.format,
        action=Action(row.action),
        engine=row.engine,
        holder=row.lease_holder or "",
    )
