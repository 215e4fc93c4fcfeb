# SPDX-License-Identifier: Apache-2.0
"""What people and programs ask of operations: each change is allowed or refused, carried out and recorded."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lakehand.api.fields import given_values, names_of, values_of
from lakehand.api.operations import (
    ChangedOperation,
    LogQuery,
    LogsAnswer,
    OperationQuery,
    OperationRequest,
    WantedWork,
)
from lakehand.api.tables import NewTable
from lakehand.api.writers import PlanRemoval, PlansRequest
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import NotificationRules, OperationFilter, Page, Store
from lakehand.core.services.audit_trail import AuditTrail, need_table, operation_state, request_of
from lakehand.core.services.tables import TableService, end_all_waiting
from lakehand.domain.access import Caller
from lakehand.domain.actions import Action
from lakehand.domain.errors import Conflict, Invalid, NotFound
from lakehand.domain.events import Event, StoredEvent, operation_event
from lakehand.domain.locations import normalise
from lakehand.domain.operations import (
    FOLLOWED,
    MOST_UNFINISHED,
    UNFINISHED,
    Attempt,
    NewOperation,
    Operation,
    OperationChanges,
    OperationId,
    Status,
    service_instant,
)
from lakehand.domain.processes import Instant, Json, TableProcess
from lakehand.domain.row_checks import PARAMETER, STRENGTHS, RowMode, mode_of
from lakehand.domain.tables import Table, TableId
from lakehand.domain.texts import Word
from lakehand.spi.pauses import DRY_RUN

CONFIRM = "confirm"
DEFAULT = "default"
MODE = "mode"
# These say which operation is wanted, and what its row has: they are no parameters of the job.
OF_THE_ROW = ("table", "location", "action", "instant", "engine", *FOLLOWED, "retry_on_error")
RECORDED = ("engine", *FOLLOWED, "retry_on_error", "resource", "parallelism")  # in the audit trail, where given
LOG_READ, MOST_LOG_READS = 1024 * 1024, 16  # bytes of a log that are read at once, and how often


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDetail:
    """An operation with all that is known of it."""

    operation: Operation
    table: Table
    attempts: Sequence[Attempt]
    events: Sequence[StoredEvent]


@dataclass(frozen=True, kw_only=True)
class OperationService:
    store: Store
    plugins: Plugins
    tables: TableService
    rules: NotificationRules
    audit: AuditTrail
    wake: Callable[[], None]

    def list(self, query: OperationQuery) -> Page[tuple[Operation, Table]]:
        wanted = OperationFilter(
            table=None if query.table is None else TableId(query.table), owner=query.owner, queue=query.queue,
            location=normalise(query.location) if query.location else None,
            action=Action(query.action) if query.action else None, statuses=read_statuses(query.status or ""),
        )  # fmt: skip
        page = self.store.operations.list(wanted, limit=query.limit, cursor=query.cursor)
        tables = self.store.tables.by_ids({o.table for o in page.items})
        return Page(items=[(o, tables[o.table]) for o in page.items], next=page.next)

    def show(self, id: OperationId) -> OperationDetail:
        operation = self.store.operations.get(id)
        return OperationDetail(
            operation=operation,
            table=self.store.tables.get(operation.table),
            attempts=self.store.operations.attempts(id),
            events=self.store.events.list(operation=id, limit=200).items,
        )

    def submit(
        self, caller: Caller, wanted: OperationRequest, more: Mapping[str, Json] | None = None
    ) -> tuple[Operation, Table, bool]:
        """Store an operation; the same (table, instant) again is the same operation. True when it is new.

        ``more``: further parameters for the job, which the caller of this method has checked.
        """
        table = self.named_table(wanted)
        if wanted.instant:
            self.read_instant(wanted.instant)
        check_options(wanted.options, self.rules)
        action = Action(wanted.action)
        detail: dict[str, Json] = {"action": str(action), "dry_run": wanted.dry_run, "confirm": wanted.confirm}
        detail |= {"instant": wanted.instant} if wanted.instant else {}
        given = {name: getattr(wanted, name) for name in RECORDED}
        detail |= {name: value for name, value in given.items() if value is not None}
        detail |= {PARAMETER: str(wanted.verify_rows)} if wanted.verify_rows is not RowMode.OFF else {}
        request = request_of(caller, "operation.submit", table, detail=detail)
        with self.audit.record(request, lambda: need_both(caller, table, wanted.owner)) as outcome:
            operation, is_new = self.add(table, wanted, more, by=caller.name)
            outcome.after = {**operation_state(operation), "new": is_new}
        return operation, table, is_new

    def submit_plans(self, caller: Caller, wanted: PlansRequest) -> tuple[Table, Sequence[Operation]]:
        """RFC-43's submit: each plan once. A location that nobody registered is, for this action alone."""
        self.check_engine(wanted.engine)
        instants = dict.fromkeys(map(self.read_instant, wanted.instants))
        check_options(wanted.options, self.rules)
        table = self.table_of_plans(caller, wanted)
        shared = {name: value for name, value in values_of(wanted).items() if name in names_of(WantedWork)}
        shared |= {"table": table.id, "location": None}
        requests = [OperationRequest(**shared, instant=instant) for instant in instants]
        more = {"options": dict(wanted.options)}
        return table, [self.submit(caller, request, more)[0] for request in requests]

    def table_of_plans(self, caller: Caller, wanted: PlansRequest) -> Table:
        try:
            return self.named_table(wanted)
        except NotFound:
            if wanted.location is None:
                raise
        new = NewTable(
            location=wanted.location, format=self.rules.format, db_name=wanted.db_name, table_name=wanted.table_name,
            owner=wanted.owner or DEFAULT, queue=wanted.queue or DEFAULT, action_types=[wanted.action],
        )  # fmt: skip
        return self.tables.add(caller, new)[0]

    def remove_plan(self, caller: Caller, wanted: PlanRemoval) -> tuple[Operation, Table]:
        """RFC-43's remove: the writer rolled the plan back, or nobody wants it. One that runs is canceled."""
        action, instant, table = Action(wanted.action), self.read_instant(wanted.instant), self.named_table(wanted)
        found = self.store.operations.find(table.id, instant)
        if found is None:
            raise NotFound(f"{table.name} has no operation at {instant}")
        if found.process.action != action:
            raise NotFound(f"{table.name} has no {action} at {instant}, where {named(found)} is")
        return self.cancel(caller, found.id, delete=True)

    def named_table(self, wanted: OperationRequest | PlansRequest | PlanRemoval) -> Table:
        if wanted.table is not None:
            return self.tables.get(TableId(wanted.table))
        if wanted.location is not None:
            return self.tables.find(wanted.location)
        if isinstance(wanted, OperationRequest):
            raise Invalid("the request names no table: give its id (table) or its location")
        if not wanted.table_name:
            raise Invalid("the request names no table: give its id (table), its location, or table_name with db_name")
        return self.tables.by_name(wanted.db_name, wanted.table_name)

    def read_instant(self, text: str) -> Instant:
        found = self.rules.plausible_instants([text], self.store.clock.estimate())
        if not found:
            raise Invalid(f"{text[:40]!a} is not an instant: give a time of 14 or 17 digits that is not in the future")
        return found[0]

    def add(
        self, table: Table, wanted: OperationRequest, more: Mapping[str, Json] | None = None, *, by: str
    ) -> tuple[Operation, bool]:
        """As ``submit``, for the service itself: without a caller that must be allowed, and not in the audit trail."""
        action, instant = Action(wanted.action), Instant(wanted.instant) if wanted.instant else None
        self.check_possible(table, wanted)
        self.check_not_too_many(table, instant)
        now = self.store.clock.now()
        reason, parameters = f"asked for by {by}", parameters_of(wanted, more or {})
        process = TableProcess(action=action, instant=instant, reason=reason, parameters=parameters)
        new = NewOperation(
            table=table.id, instant=instant or service_instant(action, now), process=process, origin=by,
            priority=wanted.priority, queue=wanted.queue, owner=wanted.owner, due_at=now,
            retry_on_error=wanted.retry_on_error, wanted_engine=wanted.engine or None,
        )  # fmt: skip
        operation, is_new = self.store.operations.add(new, now=now, event=request_event(table, wanted, by))
        if not is_new:
            check_same_action(operation, process)
            check_same_flags(operation, process)
            event = operation_event(operation, "operation.changed", f"changed by a repeated request of {by}")
            event = replace(event, detail={"by": by})
            operation = self.store.operations.repeat(operation, new, now=now, event=event)
        self.wake()
        return operation, is_new

    def check_possible(self, table: Table, wanted: OperationRequest) -> None:
        action = Action(wanted.action)
        factory = self.plugins.factory(table.format, action)
        if action not in table.spec.action_types:
            raise Conflict(
                f"{table.name} is not registered for {action}: lakehand tables change {table.id} --actions +{action}"
            )
        if wanted.dry_run and action not in (listed := sorted(factory.dry_run_actions())):
            can = f"; {table.format} tables have one for {', '.join(listed)}" if listed else ""
            raise Invalid(f"{action} has no dry run: it deletes nothing, or cannot tell beforehand{can}")
        self.check_engine(wanted.engine)
        if wanted.dry_run and wanted.confirm:
            raise Invalid("a dry run deletes nothing, so that there is nothing to confirm: give one of the two")

    def has_dry_run(self, table: Table, action: Action) -> bool:
        return action in self.plugins.factory(table.format, action).dry_run_actions()

    def check_engine(self, name: str | None) -> None:
        """Refuse an engine that is unknown or off, with those that are on."""
        if name and name not in self.plugins.engines:
            on = ", ".join(sorted(self.plugins.engines)) or "none"
            raise Invalid(f"the engine {name[:40]!a} is not on; on are: {on}{self.plugins.absent('engine')}")

    def check_not_too_many(self, table: Table, instant: Instant | None) -> None:
        """A repeated request stores no further operation."""
        count = sum(self.store.operations.unfinished(table.id).values())
        if count < MOST_UNFINISHED or (instant and self.store.operations.find(table.id, instant)):
            return
        raise Conflict(
            f"{table.name} has {count} unfinished operations, and at most {MOST_UNFINISHED} are stored on request: "
            f"wait for them, or take them out with lakehand operations clear {table.id}; plans in its timeline "
            "are found by evaluating it"
        )

    def cancel(self, caller: Caller, id: OperationId, *, delete: bool = False) -> tuple[Operation, Table]:
        """Ask for the end of an operation; ``delete`` also removes it from the service's care for good."""
        verb = "operation.remove" if delete else "operation.cancel"
        return self.carry_out(caller, verb, id, lambda: self.end(id, by=caller.name, delete=delete))

    def retry(self, caller: Caller, id: OperationId) -> tuple[Operation, Table]:
        return self.carry_out(caller, "operation.retry", id, lambda: self.reopen(id, by=caller.name))

    def change(self, caller: Caller, id: OperationId, changed: ChangedOperation) -> tuple[Operation, Table]:
        """Move an operation that waits. What is given does not follow its table any more."""
        given = {name: value for name, value in values_of(changed).items() if value is not None}
        if not given:
            raise Invalid("nothing is to be changed: give a priority, a queue or an owner")
        known = self.store.operations.get(id)
        table, by = self.store.tables.get(known.table), caller.name
        before = {name: getattr(known, name) for name in given}
        request = request_of(caller, "operation.change", table, operation=id, detail=given, before=before)
        message = f"changed by {by}: {', '.join(f'{name} = {value}' for name, value in given.items())}"
        event = operation_event(known, "operation.changed", message)
        with self.audit.record(request, lambda: need_both(caller, table, changed.owner)) as outcome:
            operation = self.store.operations.change(
                id, OperationChanges(**given), now=self.store.clock.now(), event=replace(event, detail={"by": by})
            )
            outcome.after = {name: getattr(operation, name) for name in given}
        self.wake()
        return operation, table

    def carry_out(
        self, caller: Caller, verb: str, id: OperationId, do: Callable[[], Operation]
    ) -> tuple[Operation, Table]:
        """Do it if the caller may, and record it in the audit trail."""
        known = self.store.operations.get(id)
        table = self.store.tables.get(known.table)
        request = request_of(caller, verb, table, operation=id, before=operation_state(known))
        with self.audit.record(request, lambda: need_table(caller, table)) as outcome:
            operation = do()
            outcome.after = operation_state(operation)
        return operation, table

    def end(self, id: OperationId, *, by: str, delete: bool = False) -> Operation:
        """As ``cancel``, for the service itself: without a caller that must be allowed, and not in the audit trail."""
        known = self.store.operations.get(id)
        word = "removed" if delete else "canceled"
        asked = Event(
            kind=f"operation.{word}", message=f"{word} by {by}", table=known.table, operation=id, detail={"by": by}
        )
        operation = self.store.operations.request_cancel(id, now=self.store.clock.now(), event=asked, delete=delete)
        self.wake()
        return operation

    def reopen(self, id: OperationId, *, by: str) -> Operation:
        """As ``retry``, for the service itself."""
        now = self.store.clock.now()
        known = self.store.operations.get(id)
        reason = f"retried by {by}"
        again = Event(kind="operation.reopened", message=reason, table=known.table, operation=id, detail={"by": by})
        operation = self.store.operations.reopen(known.reopened(at=now, reason=reason), now=now, event=again)
        self.wake()
        return operation

    def clear(self, caller: Caller, id: TableId) -> Sequence[OperationId]:
        """Remove every unfinished operation of a table: those that wait in batches, then the few that are held."""
        table, by = self.tables.get(id), caller.name
        with self.audit.record(request_of(caller, "table.clear", table), lambda: need_table(caller, table)) as outcome:
            removed = end_all_waiting(self.store, id, reason=f"removed by {by}")
            if removed:
                message = f"{len(removed)} waiting operations of {table.name} were removed by {by}"
                event = Event(kind="operation.cleared", message=message, table=id, detail={"by": by})
                self.store.events.add([event], now=self.store.clock.now())
            held = [o for o in self.store.operations.of_table(id, recent=0) if o.status in UNFINISHED]
            removed += [self.end(o.id, by=by, delete=True).id for o in held]
            outcome.after = {"removed": len(removed)}
        return removed

    def logs(self, id: OperationId, query: LogQuery) -> LogsAnswer:
        attempts = self.store.operations.attempts(id)
        chosen = [a for a in attempts if query.attempt in (None, a.number)]
        if not chosen:
            raise NotFound(f"operation {id} has {len(attempts)} attempts, and none has the number {query.attempt}")
        attempt = chosen[-1]
        text = self.plugins.engine(attempt.engine).logs(attempt.handle, offset=query.offset, limit=query.limit)
        return LogsAnswer(
            operation=id, attempt=attempt.number, engine=attempt.engine, offset=query.offset,
            next_offset=query.offset + len(text.encode("utf-8", "replace")), text=text,
        )  # fmt: skip

    def log_end(self, id: OperationId, *, most: int) -> str:
        """The end of the last attempt's log, of a log that is not too long to be read for it."""
        end, offset = "", 0
        for _ in range(MOST_LOG_READS):
            page = self.logs(id, LogQuery(offset=offset, limit=LOG_READ))
            end, offset = (end + page.text)[-most:], page.next_offset
            if not page.text:
                break
        return end

    def of_table(self, table: TableId, *, recent: int = 20) -> Sequence[Operation]:
        return self.store.operations.of_table(table, recent=recent)


def need_both(caller: Caller, table: Table, owner: str | None) -> None:
    """Whether the caller may change this table, and give its operations to this owner."""
    need_table(caller, table)
    if owner is not None:
        caller.need_owner(owner)


def read_statuses(text: str) -> Collection[Status]:
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in {str(status) for status in Status}]
    if unknown:
        raise Invalid(f"{unknown[0]!a} is not a status: use {', '.join(str(status) for status in Status)}")
    return [Status(word) for word in words]


def check_options(options: Mapping[str, str], rules: NotificationRules) -> None:
    """Hudi's options pass an allow-list, the same one as on the wire."""
    check_hudi_options({key: value for key, value in options.items() if key.lower().startswith("hoodie.")}, rules)


def check_hudi_options(options: Mapping[str, str], rules: NotificationRules) -> None:
    for key, value in options.items():
        if key not in rules.options:
            raise Invalid(f"{key[:80]!a} is not on the allow-list: {', '.join(sorted(rules.options))}")
        if not rules.is_value(value):
            raise Invalid(f"the value of {key} may hold letters, digits and ._:+- only, at most 64")


def parameters_of(wanted: OperationRequest, more: Mapping[str, Json]) -> dict[str, Json]:
    """For the job: each field that was given, by its name. ``more`` can give none of them but options.

    The parallelism is text, as Hudi's client sends it: a repeat through another interface says the same.
    """
    given = {name: value for name, value in given_values(wanted).items() if name not in OF_THE_ROW}
    is_text = {name: isinstance(value, Word) or name == "parallelism" for name, value in given.items()}
    given = {name: str(value) if is_text[name] else value for name, value in given.items()}
    reserved = {MODE, *names_of(OperationRequest)} - {"options"}
    free = {name: value for name, value in more.items() if name not in reserved}
    return {**free, **given} | ({} if wanted.instant else {MODE: "plan-and-execute"})


def named(operation: Operation) -> str:
    return f"operation {operation.id} ({operation.process.action}, {operation.status})"


def check_same_action(stored: Operation, wanted: TableProcess) -> None:
    """An instant is one plan of one action."""
    if stored.process.action != wanted.action:
        raise Conflict(f"{wanted.action} cannot have the instant {stored.instant}, which {named(stored)} has")


def check_same_flags(stored: Operation, wanted: TableProcess) -> None:
    for flag in (DRY_RUN, CONFIRM):
        if wanted.parameters.get(flag) and not stored.process.parameters.get(flag):
            raise Conflict(f"operation {stored.id} at {stored.instant} is stored already, without {flag}")
    if STRENGTHS.index(mode_of(wanted)) > STRENGTHS.index(mode_of(stored.process)):
        raise Conflict(f"operation {stored.id} at {stored.instant} is stored already, without {PARAMETER}")


def request_event(table: Table, wanted: OperationRequest, by: str) -> Event:
    what = f"a dry run of {Action(wanted.action)}" if wanted.dry_run else Action(wanted.action)
    message = f"{what} of {table.name} was asked for by {by}"
    kind, text = (
        ("operation.confirmed", f"{message}, and confirmed") if wanted.confirm else ("operation.stored", message)
    )
    return Event(kind=kind, message=text, table=table.id, detail={"by": by})
