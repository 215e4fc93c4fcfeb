# SPDX-License-Identifier: Apache-2.0
"""Requests about operations: list, show, submit, cancel, retry, remove, read logs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import OperationFilter, Page, Store
from lakehand.domain.actions import Action
from lakehand.domain.errors import Conflict, Invalid, NotFound
from lakehand.domain.events import Event, StoredEvent
from lakehand.domain.locations import normalise
from lakehand.domain.operations import (
    MOST_UNFINISHED,
    UNFINISHED,
    Attempt,
    NewOperation,
    Operation,
    OperationId,
    service_instant,
)
from lakehand.domain.processes import Instant, Json, TableProcess
from lakehand.domain.row_checks import PARAMETER, STRENGTHS, RowMode, mode_of
from lakehand.domain.tables import Table, TableId
from lakehand.spi.pauses import DRY_RUN

BATCH = 2000  # operations that are ended in one transaction
CONFIRM = "confirm"
MODE = "mode"
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
    wake: Callable[[], None]

    def list(self, wanted: OperationFilter, *, limit: int, cursor: str | None) -> Page[tuple[Operation, Table]]:
        if wanted.location:
            wanted = replace(wanted, location=normalise(wanted.location))
        page = self.store.operations.list(wanted, limit=limit, cursor=cursor)
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
        self,
        table: Table,
        action: Action,
        instant: Instant | None,
        parameters: Mapping[str, Json],
        *,
        origin: str,
        dry_run: bool = False,
        confirm: bool = False,
        verify_rows: RowMode = RowMode.OFF,
    ) -> tuple[Operation, bool]:
        """Store an operation that someone asked for; the same (table, instant) again is the same operation.

        ``confirm``: a person allows what the job would refuse to do by itself. ``verify_rows`` can only raise what the
        table itself has.
        """
        self.check_possible(table, action, dry_run=dry_run, confirm=confirm)
        self.check_not_too_many(table, instant)
        now = self.store.clock.now()
        wanted = flags(instant, dry_run=dry_run, confirm=confirm, verify_rows=verify_rows)
        process = TableProcess(
            action=action, instant=instant, reason=f"asked for by {origin}",
            parameters={**without_reserved(parameters), **wanted},
        )  # fmt: skip
        new = NewOperation(
            table=table.id, instant=instant or service_instant(action, now), process=process, origin=origin,
            priority=table.spec.priority, queue=table.spec.queue, owner=table.spec.owner, due_at=now,
        )  # fmt: skip
        operation, is_new = self.store.operations.add(
            new, now=now, event=request_event(table, action, origin, dry_run=dry_run, confirm=confirm)
        )
        if not is_new:
            check_same_flags(operation, process)
        self.wake()
        return operation, is_new

    def check_possible(self, table: Table, action: Action, *, dry_run: bool, confirm: bool) -> None:
        factory = self.plugins.factory(table.format, action)
        if action not in table.spec.action_types:
            raise Conflict(
                f"{table.name} is not registered for {action}: lakehand tables change {table.id} --actions +{action}"
            )
        listed = sorted(factory.dry_run_actions())
        if dry_run and action not in listed:
            can = f"; {table.format} tables have one for {', '.join(listed)}" if listed else ""
            raise Invalid(f"{action} has no dry run: it deletes nothing, or cannot tell beforehand{can}")
        if dry_run and confirm:
            raise Invalid("a dry run deletes nothing, so that there is nothing to confirm: give one of the two")

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

    def cancel(self, id: OperationId, *, by: str, delete: bool = False) -> Operation:
        """Ask for the end of an operation; ``delete`` also removes it from the service's care for good."""
        known = self.store.operations.get(id)
        word = "removed" if delete else "canceled"
        asked = Event(
            kind=f"operation.{word}", message=f"{word} by {by}", table=known.table, operation=id, detail={"by": by}
        )
        operation = self.store.operations.request_cancel(id, now=self.store.clock.now(), event=asked, delete=delete)
        self.wake()
        return operation

    def remove(self, table: Table, instant: Instant, *, by: str) -> Operation:
        """RFC-43's remove: the plan was rolled back by its writer, or is no longer wanted."""
        found = self.store.operations.find(table.id, instant)
        if found is None:
            raise NotFound(f"{table.name} has no operation at {instant}")
        return self.cancel(found.id, by=by, delete=True)

    def clear(self, table: Table, *, by: str) -> Sequence[OperationId]:
        """Remove every unfinished operation of a table: those that wait in batches, then the few that are held."""
        removed = end_all_waiting(self.store, table.id, reason=f"removed by {by}")
        if removed:
            message = f"{len(removed)} waiting operations of {table.name} were removed by {by}"
            self.store.events.add(
                [Event(kind="operation.cleared", message=message, table=table.id, detail={"by": by})],
                now=self.store.clock.now(),
            )
        held = [o for o in self.store.operations.of_table(table.id, recent=0) if o.status in UNFINISHED]
        return [*removed, *(self.cancel(o.id, by=by, delete=True).id for o in held)]

    def retry(self, id: OperationId, *, by: str) -> Operation:
        now = self.store.clock.now()
        known = self.store.operations.get(id)
        reason = f"retried by {by}"
        again = Event(kind="operation.reopened", message=reason, table=known.table, operation=id, detail={"by": by})
        operation = self.store.operations.reopen(known.reopened(at=now, reason=reason), now=now, event=again)
        self.wake()
        return operation

    def logs(self, id: OperationId, *, attempt: int | None, offset: int, limit: int) -> tuple[Attempt, str]:
        attempts = self.store.operations.attempts(id)
        chosen = [a for a in attempts if attempt in (None, a.number)]
        if not chosen:
            raise NotFound(f"operation {id} has {len(attempts)} attempts, and none has the number {attempt}")
        engine = self.plugins.engine(chosen[-1].engine)
        return chosen[-1], engine.logs(chosen[-1].handle, offset=offset, limit=limit)

    def log_end(self, id: OperationId, *, most: int) -> str:
        """The end of the last attempt's log, of a log that is not too long to be read for it."""
        end, offset = "", 0
        for _ in range(MOST_LOG_READS):
            _, text = self.logs(id, attempt=None, offset=offset, limit=LOG_READ)
            end, offset = (end + text)[-most:], offset + len(text.encode("utf-8", "replace"))
            if not text:
                break
        return end

    def of_table(self, table: TableId, *, recent: int = 20) -> Sequence[Operation]:
        return self.store.operations.of_table(table, recent=recent)


def end_all_waiting(store: Store, table: TableId, *, reason: str) -> list[OperationId]:
    """In batches, so that no transaction is long."""
    ended: list[OperationId] = []
    while batch := store.operations.end_waiting(table, now=store.clock.now(), reason=reason, limit=BATCH):
        ended += batch
    return ended


def without_reserved(parameters: Mapping[str, Json]) -> dict[str, Json]:
    """Strip reserved keys from user parameters."""
    return {key: value for key, value in parameters.items() if key not in (DRY_RUN, CONFIRM, MODE, PARAMETER)}


def flags(instant: Instant | None, *, dry_run: bool, confirm: bool, verify_rows: RowMode) -> dict[str, Json]:
    set_flags: dict[str, Json] = {} if instant else {MODE: "plan-and-execute"}
    set_flags |= {DRY_RUN: True} if dry_run else {}
    set_flags |= {PARAMETER: str(verify_rows)} if verify_rows is not RowMode.OFF else {}
    return set_flags | ({CONFIRM: True} if confirm else {})


def check_same_flags(stored: Operation, wanted: TableProcess) -> None:
    for flag in (DRY_RUN, CONFIRM):
        if wanted.parameters.get(flag) and not stored.process.parameters.get(flag):
            raise Conflict(f"operation {stored.id} at {stored.instant} is stored already, without {flag}")
    if STRENGTHS.index(mode_of(wanted)) > STRENGTHS.index(mode_of(stored.process)):
        raise Conflict(f"operation {stored.id} at {stored.instant} is stored already, without {PARAMETER}")


def request_event(table: Table, action: Action, by: str, *, dry_run: bool, confirm: bool) -> Event:
    what = f"a dry run of {action}" if dry_run else str(action)
    message = f"{what} of {table.name} was asked for by {by}"
    kind, text = ("operation.confirmed", f"{message}, and confirmed") if confirm else ("operation.stored", message)
    return Event(kind=kind, message=text, table=table.id, detail={"by": by})
