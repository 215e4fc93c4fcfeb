# SPDX-License-Identifier: Apache-2.0
"""Records what people ask for: the request before it is carried out, the answer after it."""

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta

from lakehand.api.access import AuditQuery
from lakehand.core.ports import AuditFilter, Page, Store
from lakehand.domain.access import OK, AuditAnswer, AuditEntry, AuditId, AuditRequest, Caller, Role
from lakehand.domain.errors import Forbidden, LakehandError
from lakehand.domain.operations import Operation, OperationId
from lakehand.domain.processes import Json
from lakehand.domain.tables import Table, TableChanges, TableSpec

log = logging.getLogger(__name__)
PERIOD = timedelta(hours=1)  # within which refused requests of one kind are counted
MOST_KINDS = 10_000  # that are counted at once
LONGEST = 500  # characters of each part of a refused request
WHOLE = 10  # of a kind are stored each


@dataclass(slots=True)
class AuditOutcome:
    """Filled in by what is recorded."""

    after: Mapping[str, Json] = field(default_factory=dict)


class Refusals:
    """Counts refused requests of one kind: of one caller, for one action. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kinds: OrderedDict[tuple[str, str], tuple[datetime, int]] = OrderedDict()  # since when, how many

    def count(self, request: AuditRequest, now: datetime) -> int | None:
        """How many there were within the period, if this one is to be stored: one of the first, the 100th and so on."""
        key = (request.caller.name, request.action)
        with self._lock:
            since, times = self._kinds.get(key, (now, 0))
            if not timedelta() <= now - since < PERIOD:
                since, times = now, 0
            self._kinds[key] = (since, times + 1)
            self._kinds.move_to_end(key)
            if len(self._kinds) > MOST_KINDS:
                self._kinds.popitem(last=False)
        return times + 1 if times < WHOLE or str(times + 1).rstrip("0") == "1" else None


@dataclass(frozen=True, kw_only=True)
class AuditTrail:
    store: Store
    refusals: Refusals = field(default_factory=Refusals)

    @contextmanager
    def record(self, request: AuditRequest, allow: Callable[[], None] = lambda: None) -> Iterator[AuditOutcome]:
        """Nothing is carried out unless ``allow`` raises nothing and the request could be stored."""
        try:
            allow()
        except Forbidden as error:
            self.note_refusal(request, error)
            raise
        number, outcome = self.store.audit.begin(request, now=self.store.clock.estimate()), AuditOutcome()
        try:
            yield outcome
        except LakehandError as error:
            self.finish(number, AuditAnswer(code=error.code, message=str(error)))
            raise
        except BaseException:
            self.finish(number, AuditAnswer(code="error", message="it failed unexpectedly: see the log of the service"))
            raise
        self.finish(number, AuditAnswer(code=OK, after=outcome.after))

    def note_refusal(self, request: AuditRequest, error: Forbidden) -> None:
        """Somebody who may change nothing must not fill the database, either."""
        now = self.store.clock.estimate()
        times = self.refusals.count(request, now)
        if times is not None:
            number = self.store.audit.begin(shortened(request, times), now=now)
            self.finish(number, AuditAnswer(code=error.code, message=str(error)[:LONGEST]))

    def finish(self, id: AuditId, answer: AuditAnswer) -> None:
        """An answer that cannot be stored stays unknown: the request was carried out all the same."""
        try:
            self.store.audit.finish(id, answer, now=self.store.clock.estimate())
        except LakehandError as error:
            log.warning("an answer is missing in the audit trail", extra={"audit": id, "error": str(error)})

    def list(self, caller: Caller, query: AuditQuery) -> Page[AuditEntry]:
        """What people asked for, newest first. It names people and addresses, so that viewers do not see it."""
        caller.need(Role.OPERATOR)
        return self.store.audit.list(AuditFilter(**query.filters()), limit=query.limit, cursor=query.cursor)


def shortened(request: AuditRequest, times: int) -> AuditRequest:
    """What is stored of a refused request: bounded, and how many of its kind there were within the period."""
    size = len(json.dumps(request.detail))
    detail: dict[str, Json] = dict(request.detail) if size <= LONGEST else {"left_out_characters": size}
    repeated: dict[str, Json] = {"times": times} if times > WHOLE else {}
    return replace(request, subject=request.subject[:LONGEST], detail=detail | repeated, before={})


def request_of(
    caller: Caller, action: str, table: Table, *, detail: Mapping[str, Json] | None = None,
    before: Mapping[str, Json] | None = None, operation: OperationId | None = None,
) -> AuditRequest:  # fmt: skip
    """What a caller asks of a table, or of one of its operations."""
    return AuditRequest(
        caller=caller, action=action, subject=table.name, table=table.id, operation=operation, detail=detail or {},
        before=before or {},
    )  # fmt: skip


def need_table(caller: Caller, table: Table) -> None:
    """Whether the caller may change this table."""
    caller.need(Role.OPERATOR)
    caller.need_owner(table.spec.owner)


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
