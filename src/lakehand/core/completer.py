# SPDX-License-Identifier: Apache-2.0
"""Settles an attempt that is over: the table says whether it worked, and the policy says what follows if not."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakehand.core.plugins import Plugins
from lakehand.core.ports import Metrics, Secrets, Store
from lakehand.core.recovery import Recovery
from lakehand.core.runtimes import Runtimes, StoredRuntime
from lakehand.domain.errors import LakehandError, LocationRefused
from lakehand.domain.events import Event
from lakehand.domain.operations import Attempt, Operation, Status
from lakehand.domain.processes import Failure, Finding, Remedy, Verdict
from lakehand.domain.retries import RetryPolicy
from lakehand.spi.engines import EngineState, EngineStatus
from lakehand.spi.factories import ProcessFactory

log = logging.getLogger(__name__)
AT_ONCE = timedelta(seconds=1)
OUTSIDE_TABLE = "lakehand.jobs.boundary.OutsideTable"


@dataclass(frozen=True, kw_only=True)
class Completer:
    store: Store
    plugins: Plugins
    runtimes: Runtimes
    metrics: Metrics
    secrets: Secrets
    recovery: Recovery
    policy: RetryPolicy
    on_settled: Callable[[], None]

    def settle(self, operation: Operation, status: EngineStatus) -> Operation:
        """Move an operation whose attempt is over to where the table says it belongs."""
        now = self.store.clock.now()
        table = self.store.tables.get(operation.table)
        try:
            factory = self.plugins.factory(table.format, operation.process.action)
            runtime = self.runtimes.open(table, factory, now=now)
        except LakehandError as error:
            return self.without_table(operation, status, error, now)
        verdict = ask_table(factory, runtime, operation, status)
        if verdict.finding is Finding.UNREADABLE:
            return self.keep_asking(operation, verdict, now)
        if verdict.finding is Finding.DONE:
            return self.end(operation, Status.SUCCEEDED, status, verdict=verdict, reason=verdict.reason, now=now)
        if verdict.finding is Finding.GONE:
            return self.end(operation, Status.DROPPED, status, verdict=verdict, reason=verdict.reason, now=now)
        if operation.cancel_requested:
            return self.end(operation, Status.CANCELED, status, verdict=verdict, reason="stopped as asked", now=now)
        failure = self.recovery.failure(operation) or failure_of(factory, runtime, operation, status, verdict)
        return self.fail_or_retry(operation, failure, status, now)

    def without_table(
        self, operation: Operation, status: EngineStatus, error: LakehandError, now: datetime
    ) -> Operation:
        """The table cannot be asked. A job that met its boundary and a place that is refused say the same."""
        if isinstance(error, LocationRefused) and status.error_class == OUTSIDE_TABLE:
            return self.fail_or_retry(operation, outside_table(status), status, now)
        nobody = Verdict(finding=Finding.UNREADABLE, reason=f"nobody can say what became of it: {error}")
        return self.keep_asking(operation, nobody, now)

    def keep_asking(self, operation: Operation, verdict: Verdict, now: datetime) -> Operation:
        if operation.status is Status.UNKNOWN and operation.reason == verdict.reason:
            return operation
        told = event_of(operation, "operation.unknown", verdict.reason)
        if operation.status is Status.UNKNOWN:
            return self.store.operations.save(replace(operation, reason=verdict.reason), now=now, event=told)
        moved = operation.moved_to(Status.UNKNOWN, at=now, reason=verdict.reason)
        return self.store.operations.save(moved, now=now, event=told)

    def end(
        self, operation: Operation, final: Status, status: EngineStatus, *, verdict: Verdict, reason: str, now: datetime
    ) -> Operation:
        result = {**status.result, **verdict.numbers}
        ended = replace(operation.moved_to(final, at=now, reason=reason), result=result)
        return self.save_settled(ended, status, None, now, reason="ok" if final is Status.SUCCEEDED else final.value)

    def fail_or_retry(self, operation: Operation, failure: Failure, status: EngineStatus, now: datetime) -> Operation:
        wait = self.policy.delay(
            failure, run_times=operation.run_times, patience=operation.patience, chance=self.secrets.chance()
        )
        self.metrics.attempt_failed(operation.process.action, failure.reason)
        if wait is None or not operation.retry_on_error:
            why = f"attempt {operation.run_times} failed and no more are made: {failure.message}"
            failed = replace(operation.moved_to(Status.FAILED, at=now, reason=why), failure=failure)
            return self.save_settled(failed, status, failure, now, reason=failure.reason)
        again = returned(operation, failure, now, wait)
        return self.save_settled(again, status, failure, now, reason=failure.reason)

    def save_settled(
        self, operation: Operation, status: EngineStatus, failure: Failure | None, now: datetime, *, reason: str
    ) -> Operation:
        attempt = self.ended_attempt(operation, status, failure, now)
        told = event_of(operation, f"operation.{event_word(operation)}", operation.reason)
        saved = self.store.operations.save(operation, now=now, attempt=attempt, event=told, release=True)
        self.store.schedules.wake([operation.table], now=now)
        log.info(event_word(operation), extra={"operation": saved.id, "status": saved.status, "reason": saved.reason})
        self.recovery.tidy(operation)
        if saved.status.is_final:
            run_time = timedelta(seconds=status.seconds or 0) or (now - (saved.started_at or saved.submitted_at or now))
            self.metrics.finished(saved.process.action, saved.status, reason, run_time)
        self.forget(operation)
        self.on_settled()
        return saved

    def ended_attempt(
        self, operation: Operation, status: EngineStatus, failure: Failure | None, now: datetime
    ) -> Attempt | None:
        attempts = self.store.operations.attempts(operation.id)
        if not attempts:
            return None
        outcome = str(operation.status) if operation.status.is_final else "failed"
        return replace(attempts[-1], finished_at=now, outcome=outcome, failure=failure, result=status.result)

    def forget(self, operation: Operation) -> None:
        """The result is stored; the engine may clear its copy. What it does then is its own affair."""
        engine = self.plugins.engines.get(operation.process.engine)
        if engine is not None and operation.handle is not None:
            try:
                engine.forget([operation.handle])
            except (OSError, LakehandError) as error:
                log.warning("the engine keeps a result", extra={"operation": operation.id, "reason": str(error)})


def ask_table(factory: ProcessFactory, runtime: StoredRuntime, operation: Operation, status: EngineStatus) -> Verdict:
    try:
        return factory.verify(runtime, operation.process, status.result)
    except (OSError, LakehandError) as error:
        return Verdict(finding=Finding.UNREADABLE, reason=f"the table cannot be read: {error}")


def failure_of(
    factory: ProcessFactory, runtime: StoredRuntime, operation: Operation, status: EngineStatus, verdict: Verdict
) -> Failure:
    if status.state is EngineState.SUCCEEDED:
        return Failure(reason="no-effect", message=f"the job said done, the table does not show it: {verdict.reason}")
    if status.state is EngineState.LOST:
        return engine_lost(operation, status)
    if status.state is EngineState.CANCELED:
        return Failure(reason="stopped", message=status.message or "the job was stopped, and nobody had asked for it")
    if status.error_class == OUTSIDE_TABLE:  # the same in every format, plugins from outside included
        return outside_table(status)
    try:
        return factory.classify(runtime, operation, status)
    except (OSError, LakehandError) as error:
        said = status.message or "the engine gave no reason"
        return Failure(reason=status.error_class or "failed", message=f"{said} ({error})")


def engine_lost(operation: Operation, status: EngineStatus) -> Failure:
    """What blocks a writer is tried again at once; after a second loss it waits like everything else."""
    delay = AT_ONCE if operation.process.urgent and operation.run_times <= 1 else None
    return Failure(reason="engine-lost", message=status.message or "the engine died with the job", delay=delay)


def outside_table(status: EngineStatus) -> Failure:
    return Failure(reason="outside-table", message=status.message, remedy=Remedy.FATAL)


def returned(operation: Operation, failure: Failure, now: datetime, wait: timedelta) -> Operation:
    """Back to PENDING, with a visible next try."""
    is_patient = failure.remedy.value == "not-yet"
    next_try = now + wait
    why = f"attempt {operation.run_times}: {failure.message}; next try at {next_try:%H:%M:%S} UTC"
    return replace(
        operation.moved_to(Status.PENDING, at=now, reason=why),
        not_before=next_try, failure=failure, patience=operation.patience + is_patient,
    )  # fmt: skip


def event_of(operation: Operation, kind: str, message: str) -> Event:
    return Event(kind=kind, message=message, table=operation.table, operation=operation.id)


def event_word(operation: Operation) -> str:
    return "retried" if operation.status is Status.PENDING else str(operation.status)
