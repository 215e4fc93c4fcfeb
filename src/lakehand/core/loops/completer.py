# SPDX-License-Identifier: Apache-2.0
"""Completes an attempt that is over: the table shows whether it worked, and the retry policy what follows if not."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lakehand.core.loops.draining import Drain
from lakehand.core.loops.telemetry import NoObserver, RunObserver
from lakehand.core.plugins.health_reader import HealthReader
from lakehand.core.plugins.recovery import Recovery
from lakehand.core.plugins.registry import Plugins
from lakehand.core.plugins.runtimes import Runtimes, Seen, StoredRuntime
from lakehand.core.ports import IdSource, Metrics, Store
from lakehand.domain.errors import LakehandError, LocationRefused
from lakehand.domain.events import operation_event
from lakehand.domain.operations import AttemptEnd, ExternalId, Operation, Status, external_id
from lakehand.domain.processes import Failure, Finding, Json, Remedy, RetryPolicy, Verdict
from lakehand.domain.row_checks import (
    RowMode,
    RowOutcome,
    RowReport,
    is_only_verifying,
    mode_of,
    not_compared,
    only_verifying,
    row_report,
    verdict_before,
)
from lakehand.domain.tables import Table
from lakehand.spi.engines import EngineState, EngineStatus
from lakehand.spi.factories import ProcessFactory

log = logging.getLogger(__name__)
AT_ONCE = timedelta(seconds=1)
HEALTH_WAIT = 1.0  # seconds
OUTSIDE_TABLE = "lakehand.jobs.boundary.OutsideTable"
ROWS_DIFFER, ROWS_UNREAD = "rows-differ", "rows-unread"
PAUSING = frozenset({ROWS_DIFFER, ROWS_UNREAD})  # failures for good after which nothing more is done to the table


@dataclass(frozen=True, kw_only=True)
class Completer:
    store: Store
    plugins: Plugins
    runtimes: Runtimes
    metrics: Metrics
    ids: IdSource
    recovery: Recovery
    policy: RetryPolicy
    health: HealthReader
    on_completed: Callable[[], None]
    observer: RunObserver = field(default_factory=NoObserver)
    drain: Drain = field(default_factory=Drain)

    def complete(self, operation: Operation, status: EngineStatus) -> Operation:
        """Move an operation whose attempt is over to the status that the table shows."""
        now = self.store.clock.estimate()
        table = self.store.tables.get(operation.table)
        saved = self.conclude(operation, table, status, now)
        if saved.status.is_final:
            run_time = timedelta(seconds=status.seconds or 0) or (now - (saved.started_at or saved.submitted_at or now))
            self.metrics.finished(saved, table.format, run_time)
        return saved

    def conclude(self, operation: Operation, table: Table, status: EngineStatus, now: datetime) -> Operation:
        seen = Seen()
        try:
            factory = self.plugins.factory(table.format, operation.process.action)
            runtime = self.runtimes.open(table, factory, now=now, seen=seen)
        except LakehandError as error:
            return self.without_table(operation, status, error, now)
        verdict = verdict_before(operation.process) or verify(factory, runtime, operation, status)
        if verdict.finding is Finding.UNREADABLE:
            return mark_unknown(self.store, operation, verdict.reason, keep_canceling=False)
        report = row_report(status.result)
        if report is not None and report.outcome is RowOutcome.UNEQUAL:
            return self.end_unequal(operation, verdict, report, status, now)
        if verdict.finding is Finding.DONE:
            self.read_health(table, seen, now)
            return self.end_done(operation, verdict, status, now)
        if verdict.finding is Finding.GONE or operation.cancel_requested:
            return self.end_without_effect(operation, verdict, status, now)
        failure = self.recovery.failure(operation) or (
            handed_over(status)
            if self.drain.has_stopped(operation.id, status.state)
            else failure_of(factory, runtime, operation, status, verdict)
        )
        return self.fail_or_retry(operation, failure, status, now)

    def end_without_effect(
        self, operation: Operation, verdict: Verdict, status: EngineStatus, now: datetime
    ) -> Operation:
        is_gone = verdict.finding is Finding.GONE
        final, reason = (Status.DROPPED, verdict.reason) if is_gone else (Status.CANCELED, "stopped as asked")
        return self.end(operation, final, status, verdict=verdict, reason=reason, now=now)

    def end_done(self, operation: Operation, verdict: Verdict, status: EngineStatus, now: datetime) -> Operation:
        """The effect is in the table. If rows are to be compared and nobody did, the next attempt does only that."""
        if mode_of(operation.process) is RowMode.OFF or row_report(status.result):
            return self.end(operation, Status.SUCCEEDED, status, verdict=verdict, reason=verdict.reason, now=now)
        if operation.cancel_requested or status.state is EngineState.SUCCEEDED:
            known = replace(verdict, numbers={**verdict.numbers, **unreported(operation)})
            return self.end(operation, Status.SUCCEEDED, status, verdict=known, reason=verdict.reason, now=now)
        next_attempt = replace(operation, process=only_verifying(operation.process, verdict, status.progress))
        return self.fail_or_retry(next_attempt, unverified(operation, status), status, now)

    def end_unequal(
        self, operation: Operation, verdict: Verdict, report: RowReport, status: EngineStatus, now: datetime
    ) -> Operation:
        """Readers see other rows than before: it failed although the commit is there, and the table is paused."""
        failure = rows_differ(operation, report)
        self.metrics.attempt_failed(operation.process.action, failure.reason)
        failed = operation.moved_to(Status.FAILED, at=now, reason=f"{verdict.reason}; {failure.message}")
        ended = replace(failed, result={**status.result, **verdict.numbers}, failure=failure)
        return self.store_end(ended, status, failure, now)

    def read_health(self, table: Table, seen: Seen, now: datetime) -> None:
        """What the operation made of the table, if that is counted in time; if not, the coordinator stores it."""
        if seen.snapshot is not None:
            self.health.start(table, seen.snapshot, now, always=True).wait(HEALTH_WAIT)

    def without_table(
        self, operation: Operation, status: EngineStatus, error: LakehandError, now: datetime
    ) -> Operation:
        """The table cannot be read. If the job refused to leave its boundary, a refused location confirms it."""
        if isinstance(error, LocationRefused) and status.error_class == OUTSIDE_TABLE:
            return self.fail_or_retry(operation, outside_table(status), status, now)
        return mark_unknown(self.store, operation, f"its outcome cannot be read: {error}", keep_canceling=False)

    def end(
        self, operation: Operation, final: Status, status: EngineStatus, *, verdict: Verdict, reason: str, now: datetime
    ) -> Operation:
        result = {**status.result, **verdict.numbers}
        # The failure of an earlier attempt stays with that attempt.
        ended = replace(operation.moved_to(final, at=now, reason=reason), result=result, failure=None)
        return self.store_end(ended, status, None, now)

    def fail_or_retry(self, operation: Operation, failure: Failure, status: EngineStatus, now: datetime) -> Operation:
        wait = self.policy.delay(
            failure, run_times=operation.run_times, deferrals=operation.deferrals, random=self.ids.random(),
            retry_on_error=operation.retry_on_error or is_only_verifying(operation.process),
        )  # fmt: skip
        self.metrics.attempt_failed(operation.process.action, failure.reason)
        if wait is None:
            why = f"attempt {operation.run_times} failed and no more are made: {failure.message}"
            failed = replace(operation.moved_to(Status.FAILED, at=now, reason=why), failure=failure)
            return self.store_end(failed, status, failure, now)
        again = returned(operation, failure, now, wait)
        return self.store_end(again, status, failure, now)

    def store_end(
        self, operation: Operation, status: EngineStatus, failure: Failure | None, now: datetime
    ) -> Operation:
        outcome = str(operation.status) if operation.status.is_final else "failed"
        ended = operation.handle and AttemptEnd(
            handle=operation.handle, at=now, outcome=outcome, failure=failure, result=status.result
        )
        word = "retried" if operation.status is Status.PENDING else str(operation.status)
        event = operation_event(operation, f"operation.{word}", operation.reason)
        health = self.health.take(operation.table)
        is_paused = operation.status is Status.FAILED and failure is not None and failure.reason in PAUSING
        saved = self.store.operations.save(
            operation, now=now, ended=ended or None, event=event, release=True, wake=True, health=health,
            pause=failure.message if is_paused and failure else None, external=external_id_of(status),
        )  # fmt: skip
        self.health.confirm({operation.table: health} if health else {})
        log.info(word, extra={"operation": saved.id, "status": saved.status, "reason": saved.reason})
        self.recovery.forget(operation)
        self.observer.ended(saved)
        self.forget(operation)
        self.on_completed()
        return saved

    def forget(self, operation: Operation) -> None:
        """The result is stored, so the engine may delete its copy."""
        engine = self.plugins.engines.get(operation.process.engine)
        if engine is not None and operation.handle is not None:
            try:
                engine.forget([operation.handle])
            except (OSError, LakehandError) as error:
                log.warning("the engine keeps a result", extra={"operation": operation.id, "reason": str(error)})


def external_id_of(status: EngineStatus) -> ExternalId | None:
    return external_id(status.external_id, status.external_url)


def verify(factory: ProcessFactory, runtime: StoredRuntime, operation: Operation, status: EngineStatus) -> Verdict:
    try:
        return factory.verify(runtime, operation.process, status.result)
    except (OSError, LakehandError) as error:
        return Verdict(finding=Finding.UNREADABLE, reason=f"the table cannot be read: {error}")


def failure_of(
    factory: ProcessFactory, runtime: StoredRuntime, operation: Operation, status: EngineStatus, verdict: Verdict
) -> Failure:
    if status.state is EngineState.SUCCEEDED:
        return Failure(
            reason="no-effect", message=f"the job reported success, but the table does not show it: {verdict.reason}"
        )
    if status.state is EngineState.LOST:
        return engine_lost(operation, status)
    if status.state is EngineState.CANCELED:
        return Failure(reason="stopped", message=status.message or "the job was stopped without a request")
    if status.error_class == OUTSIDE_TABLE:  # the same in every format, plugins from outside included
        return outside_table(status)
    try:
        return factory.classify(runtime, operation, status)
    except (OSError, LakehandError) as error:
        said = status.message or "the engine gave no reason"
        return Failure(reason=status.error_class or "failed", message=f"{said} ({error})")


def engine_lost(operation: Operation, status: EngineStatus) -> Failure:
    """What blocks a writer is tried again at once; after a second loss it waits like other work."""
    delay = AT_ONCE if operation.process.urgent and operation.run_times <= 1 else None
    return Failure(reason="engine-lost", message=status.message or "the engine died with the job", delay=delay)


def handed_over(status: EngineStatus) -> Failure:
    """It was stopped because its instance is draining, which uses up no attempt. Another instance claims it at once."""
    message = f"its instance is draining: {status.message or 'it was stopped'}"
    return Failure(reason="handed-over", message=message, remedy=Remedy.NOT_YET, delay=AT_ONCE)


def outside_table(status: EngineStatus) -> Failure:
    return Failure(reason="outside-table", message=status.message, remedy=Remedy.FATAL)


def returned(operation: Operation, failure: Failure, now: datetime, wait: timedelta) -> Operation:
    """Back to PENDING, with a visible next attempt."""
    again = now + wait
    why = f"attempt {operation.run_times}: {failure.message}; next attempt at {again:%H:%M:%S} UTC"
    return replace(
        operation.moved_to(Status.PENDING, at=now, reason=why),
        not_before=again, failure=failure, deferrals=operation.deferrals + (failure.remedy is Remedy.NOT_YET),
    )  # fmt: skip


def mark_unknown(store: Store, operation: Operation, reason: str, *, keep_canceling: bool = True) -> Operation:
    """Unknown is not failed: record the reason and keep asking. The lease keeps other instances away."""
    is_known = operation.status is Status.UNKNOWN and operation.reason == reason
    if is_known or (keep_canceling and operation.status is Status.CANCELING):
        return operation
    now = store.clock.estimate()
    if operation.status is Status.UNKNOWN:
        return store.operations.save(replace(operation, reason=reason), now=now)
    moved, event = (
        operation.moved_to(Status.UNKNOWN, at=now, reason=reason),
        operation_event(operation, "operation.unknown", reason),
    )
    return store.operations.save(moved, now=now, event=event)


def rows_differ(operation: Operation, report: RowReport) -> Failure:
    message = (
        f"{operation.process.action} (operation {operation.id}) changed what readers see: {report.reason}. Compare the"
        f" two states, put the table right, and then: lakehand tables resume {operation.table}"
    )
    return Failure(reason=ROWS_DIFFER, message=message, remedy=Remedy.FATAL)


def unverified(operation: Operation, status: EngineStatus) -> Failure:
    """Unknown is not unequal: the next attempt only compares the rows."""
    why = status.message or "the engine gave no reason"
    message = (
        f"{operation.process.action} (operation {operation.id}) is done, and its rows could not be compared: {why}."
        f" If that lasts, the table is paused: lakehand tables resume {operation.table}"
    )
    return Failure(reason=ROWS_UNREAD, message=message)


def unreported(operation: Operation) -> dict[str, Json]:
    """The result of an operation that ended without a comparison, for a reason that no repeat changes."""
    stopped, silent = "stopped as asked before the rows were compared", "its job does not compare rows"
    return not_compared(operation.process, stopped if operation.cancel_requested else silent)
