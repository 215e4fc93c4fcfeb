# SPDX-License-Identifier: Apache-2.0
"""Sends traces of operations to an OpenTelemetry collector (OTLP over HTTP)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags

from lakehand.domain.operations import Attempt, Operation
from lakehand.domain.tables import Table
from lakehand.observe.spans import Span, span_id, spans_of, trace_id

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
