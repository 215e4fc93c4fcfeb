# SPDX-License-Identifier: Apache-2.0
"""Calls about operations."""

import random
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import TypeAlias, cast

from lakehand.api.fields import PageAnswer, given_values, values_of
from lakehand.api.operations import LogQuery, OperationQuery, OperationRequest
from lakehand.client import given
from lakehand.client.answers import (
    Cleared,
    LogPage,
    Operation,
    OperationDetail,
    OperationResult,
    SubmittedOperation,
    read,
)
from lakehand.client.errors import StillRunning, Unavailable
from lakehand.client.groups import Call, Group, Listing, R
from lakehand.client.steps import (
    Items,
    ItemSteps,
    Request,
    Sleep,
    Steps,
    get,
    post,
    send,
    send_for_outcome,
    send_for_pages,
)
from lakehand.client.table_calls import TABLE, TableRef, table_id
from lakehand.domain.row_checks import RowMode

OPERATIONS = "/api/v1/operations"
OPERATION = f"{OPERATIONS}/{{id}}"
OperationRef: TypeAlias = int | Operation
FOLLOW_PACE = 1.0  # seconds between two readings of a log that grows
LONGEST_POLL = 10.0  # seconds between two questions whether an operation has ended
SLOWER = 1.5  # each question waits this much longer than the one before


def list_operations(
    *,
    limit: int | None = None,
    table: TableRef | None = None,
    location: str | None = None,
    owner: str | None = None,
    queue: str | None = None,
    action: str | None = None,
    status: str | Iterable[str] | None = None,
) -> ItemSteps[Operation]:
    """Operations that match every given filter, newest first; ``limit``: at most this many."""
    statuses = status if isinstance(status, str) or status is None else ",".join(status) or None
    number = None if table is None else (yield from table_id(table))
    query = OperationQuery(table=number, location=location, owner=owner, queue=queue, action=action, status=statuses)
    yield from send_for_pages(OPERATIONS, PageAnswer[Operation], values_of(query), limit)


def id_of(operation: OperationRef) -> int:
    return operation if isinstance(operation, int) else operation.id


def get_operation(operation: OperationRef) -> Steps[OperationDetail]:
    """One operation with its attempts and events."""
    return send(get(OPERATION, OperationDetail, id=id_of(operation)))


def submit_operation(
    table: TableRef,
    action: str,
    *,
    instant: str | None = None,
    options: Mapping[str, str] | None = None,
    dry_run: bool = False,
    confirm: bool = False,
    verify_rows: str | None = None,
    retry_on_error: bool | None = None,
    engine: str | None = None,
    resource: str | None = None,
    parallelism: int | None = None,
    priority: int | None = None,
    queue: str | None = None,
    owner: str | None = None,
) -> Steps[SubmittedOperation]:
    """Submit an operation. With an instant: run that plan, once, however often it is submitted. Else: plan and run.

    ``verify_rows``: compare rows before and after by ``count`` or ``checksum``. ``retry_on_error``: False: one attempt.
    ``engine``: where it runs; by default the service chooses. ``resource`` (``4g:4g``, driver and executors) and
    ``parallelism``: of an application of its own. Priority, queue and owner: by default those of the table.
    """
    wanted = OperationRequest(
        table=(yield from table_id(table)), action=action, instant=instant, options=dict(options or {}),
        dry_run=dry_run, confirm=confirm, verify_rows=cast(RowMode, verify_rows or RowMode.OFF),
        retry_on_error=retry_on_error, engine=engine, resource=resource, parallelism=parallelism, priority=priority,
        queue=queue, owner=owner,
    )  # fmt: skip
    request = post(OPERATIONS, Operation, given_values(wanted), is_repeatable=instant is not None)
    outcome = yield from send_for_outcome(request)
    return read(SubmittedOperation, outcome.document(), is_new=outcome.is_new)


def change_operation(
    operation: OperationRef, *, priority: int | None = None, queue: str | None = None, owner: str | None = None
) -> Steps[Operation]:
    """Move an operation that waits. What is given does not follow its table any more."""
    body = given({"priority": priority, "queue": queue, "owner": owner})
    return send(Request(method="PATCH", route=OPERATION, answer=Operation, values={"id": id_of(operation)}, body=body))


def cancel_operation(operation: OperationRef) -> Steps[Operation]:
    """Cancel it. A running one ends when its engine has stopped it."""
    return send(post(f"{OPERATION}/cancel", Operation, id=id_of(operation)))


def retry_operation(operation: OperationRef) -> Steps[Operation]:
    """Retry a failed, canceled or dropped operation, with all its attempts restored."""
    return send(post(f"{OPERATION}/retry", Operation, id=id_of(operation)))


def remove_operation(operation: OperationRef) -> Steps[Operation]:
    """Remove it from the service; a running one is canceled first."""
    return send(Request(method="DELETE", route=OPERATION, answer=Operation, values={"id": id_of(operation)}))


def clear_operations(table: TableRef) -> Steps[Cleared]:
    """Remove every unfinished operation of a table; running ones are canceled."""
    return (yield from send(post(f"{TABLE}/clear", Cleared, id=(yield from table_id(table)))))


def read_log(
    operation: OperationRef, *, attempt: int | None = None, offset: int = 0, follow: bool = False
) -> ItemSteps[LogPage]:
    """The log of an attempt (default: the last one) in pieces; ``follow``: until the operation ends."""
    while True:
        has_ended = (yield from get_operation(operation)).is_final
        query = LogQuery(attempt=attempt, offset=offset)
        page = yield from send(get(f"{OPERATION}/logs", LogPage, given_values(query), id=id_of(operation)))
        offset = page.next_offset
        if page.text:
            yield Items([page])
        elif has_ended or not follow:
            return
        else:
            yield Sleep(FOLLOW_PACE)


def wait_for_operation(
    operation: OperationRef, *, timeout: float = 3600.0, poll: float = 1.0
) -> Steps[OperationResult]:
    """Wait for its end; raises StillRunning after ``timeout`` seconds. ``poll``: seconds to the second question.

    Later questions come less often. A service that is away for a while does not end the wait.
    """
    deadline = monotonic() + timeout
    last: OperationDetail | None = None
    while True:
        problem = ""
        try:
            last = yield from get_operation(operation)
        except Unavailable as error:
            problem = f"; {error}"
        if last is not None and last.is_final:
            return OperationResult(operation=last)
        left = deadline - monotonic()
        if left <= 0:
            status = last.status if last else "not known to be running"
            raise StillRunning(f"operation {id_of(operation)} is {status} after {timeout:g} s{problem}", last)
        yield Sleep(min(left, poll * random.uniform(0.8, 1.0)))
        poll = min(poll * SLOWER, max(poll, LONGEST_POLL))


class Operations(Group[R]):
    list = Listing(list_operations)
    get = Call(get_operation)
    submit = Call(submit_operation)
    wait = Call(wait_for_operation)
    change = Call(change_operation)
    cancel = Call(cancel_operation)
    retry = Call(retry_operation)
    remove = Call(remove_operation)
    clear = Call(clear_operations)
    log = Listing(read_log)
