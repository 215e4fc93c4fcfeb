# SPDX-License-Identifier: Apache-2.0
"""The trace of an operation, from what made it due to the verified result, sent to an OpenTelemetry collector.

Made from what is stored, when it is over: whichever instance ends the operation writes the whole trace, and twice is
the same trace.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags

from lakehand.domain.operations import Attempt, Operation, Status
from lakehand.domain.tables import Table

Value = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    key: str  # unique in its trace
    name: str
    start: datetime
    end: datetime
    parent: str = ""  # the key of its parent; empty: the root
    error: str = ""
    attributes: Mapping[str, Value] = field(default_factory=dict)


def trace_id(operation: Operation) -> int:
    return number_of(f"trace:{operation.tag}", 16)


def span_id(operation: Operation, key: str) -> int:
    return number_of(f"span:{operation.tag}:{key}", 8)


def number_of(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


def spans_of(operation: Operation, table: Table, attempts: Sequence[Attempt], *, now: datetime) -> Iterator[Span]:
    """The root first. ``now``: when the result was stored, that is, after it was verified."""
    ended = max(now, operation.finished_at or now)
    failed = operation.reason if operation.status is Status.FAILED else ""
    yield Span(
        key="operation", name=f"{operation.process.action} {table.name}", start=operation.due_at, end=ended,
        error=failed, attributes=facts_of(operation, table),
    )  # fmt: skip
    yield child("decide", operation.due_at, operation.created_at, why=operation.process.reason, by=operation.origin)
    waiting = operation.created_at
    for attempt in attempts:
        yield child(f"wait {attempt.number}", waiting, attempt.started_at, name="wait", queue=operation.queue)
        over = attempt.finished_at or ended
        yield Span(
            key=f"attempt {attempt.number}", name="attempt", parent="operation", start=attempt.started_at, end=over,
            error=attempt.failure.message if attempt.failure else "",
            attributes={
                "lakehand.attempt": attempt.number, "lakehand.engine": attempt.engine,
                "lakehand.handle": str(attempt.handle), "lakehand.instance": str(attempt.instance),
                "lakehand.outcome": attempt.outcome,
            },
        )  # fmt: skip
        waiting = over
    if attempts:
        yield child("verify", waiting, ended, result=operation.reason)


def child(key: str, start: datetime, end: datetime, *, name: str = "", **facts: str) -> Span:
    attributes = {f"lakehand.{fact}": value for fact, value in facts.items()}
    return Span(key=key, name=name or key, parent="operation", start=start, end=max(start, end), attributes=attributes)


def facts_of(operation: Operation, table: Table) -> Mapping[str, Value]:
    named: dict[str, Value] = {
        "operation": operation.id, "instant": str(operation.instant), "action": str(operation.process.action),
        "status": str(operation.status), "table": table.name, "table.id": table.id, "format": str(table.format),
        "location": table.location, "owner": operation.owner, "queue": operation.queue, "asked_by": operation.origin,
        "attempts": operation.run_times,
    }  # fmt: skip
    numbers = {name: value for name, value in operation.result.items() if isinstance(value, int | float)}
    return {f"lakehand.{name}": value for name, value in (named | numbers).items()}


CLOSE_TIMEOUT = 3000  # milliseconds


class GivenIds(IdGenerator):
    """The ids of the next span. One thread makes spans."""

    trace = span = 1

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


class TraceSink:
    name = "traces"

    def __init__(
        self, endpoint: str, *, headers: Mapping[str, str], timeout: float, about: Mapping[str, str],
        now: Callable[[], datetime],
    ) -> None:  # fmt: skip
        self.ids, self.now = GivenIds(), now
        self.provider = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource.create({"service.name": "lakehand", **about}), id_generator=self.ids
        )
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", headers=headers, timeout=timeout)
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self.provider.get_tracer("lakehand")

    def started(self, operation: Operation, table: Table) -> None:
        """The trace is written when the operation is over."""

    def ended(self, operation: Operation, table: Table, attempts: Sequence[Attempt]) -> None:
        if operation.status.is_final:
            for span in spans_of(operation, table, attempts, now=self.now()):
                self.send(operation, span)

    def send(self, operation: Operation, span: Span) -> None:
        self.ids.trace, self.ids.span = trace_id(operation), span_id(operation, span.key)
        parent = None
        if span.parent:
            known = SpanContext(
                self.ids.trace, span_id(operation, span.parent), is_remote=False, trace_flags=TraceFlags(1)
            )
            parent = trace.set_span_in_context(NonRecordingSpan(known))
        made = self.tracer.start_span(
            span.name, parent, attributes=dict(span.attributes), start_time=nanoseconds(span.start)
        )
        if span.error:
            made.set_status(StatusCode.ERROR, span.error)
        made.end(nanoseconds(span.end))

    def close(self) -> None:
        self.provider.force_flush(CLOSE_TIMEOUT)
        self.provider.shutdown()


def nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000) * 1_000_000
