# SPDX-License-Identifier: Apache-2.0
"""The service in small, for the tests of a plugin: decide, admit, run the job on a session, ask the table."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakehand import spi
from lakehand.domain.locations import Boundary, extra_locations
from lakehand.domain.operations import OperationId
from lakehand.domain.tables import TableId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


def boundary_parameter(location: str, *, warehouses: Sequence[str] = (), extra: str = "") -> dict[str, spi.Json]:
    """The parameter ``boundary`` of a job, for a table at a location that is there now."""
    is_local = location.startswith("/")
    real = os.path.realpath(location) if is_local else location
    found = os.stat(real) if is_local else None  # noqa: PTH116
    return Boundary(
        location=location, real=real, warehouses=tuple(warehouses) or (real,), extra=tuple(extra_locations(extra)),
        folder=f"{found.st_dev}:{found.st_ino}" if found else "",
    ).as_parameter()  # fmt: skip


@dataclass(kw_only=True)
class PluginHarness:
    """One table with its history. Time is a function, so that a test may pass it."""

    factory: spi.ProcessFactory
    format: spi.TableFormat
    spec: spi.TableSpec
    session: "SparkSession | None" = None
    reference: spi.TableReference | None = None
    properties: Mapping[str, str] = field(default_factory=dict)  # of the plugin
    now: Callable[[], datetime] = utc_now
    history: list[spi.Operation] = field(default_factory=list)  # newest first
    changed_partitions: Sequence[str] = ()  # that events named

    def runtime(self, *, left_out: OperationId | None = None) -> spi.DetachedRuntime:
        return spi.DetachedRuntime(
            spec=self.spec, format=self.format, now=self.now(), reference=self.reference, properties=self.properties,
            operations=[o for o in self.history if o.id != left_out], changed_partitions=self.changed_partitions,
            factory=self.factory,
        )  # fmt: skip

    def wants(self, action: str) -> spi.TableProcess | spi.Skip:
        return self.factory.trigger(self.runtime(), spi.Action(action))

    def stored(self, process: spi.TableProcess, *, origin: str = "coordinator") -> spi.Operation:
        """A pending operation of the process, remembered."""
        now = self.now()
        operation = spi.Operation(
            id=OperationId(len(self.history) + 1), table=TableId(1), process=process, origin=origin, not_before=now,
            instant=process.instant or spi.Instant(f"{now:%Y%m%d%H%M%S%f}-{process.action}"),
            due_at=now, created_at=now, updated_at=now,
        )  # fmt: skip
        self.history.insert(0, operation)
        return operation

    def asked(self, action: str, **parameters: spi.Json) -> spi.Operation:
        """An operation as a person asks for it: no job, and options under ``options``."""
        return self.stored(spi.TableProcess(action=spi.Action(action), parameters=parameters), origin="api")

    def admitted(self, operation: spi.Operation) -> spi.Operation:
        """The operation with its process as it would be given to an engine; fails when it would not."""
        answer = self.factory.admit(self.runtime(left_out=operation.id), operation)
        assert isinstance(answer, spi.TableProcess), answer
        bounded = replace(answer, parameters={**answer.parameters, "boundary": self.boundary()})
        return self.remember(replace(operation, process=bounded, run_times=operation.run_times + 1))

    def boundary(self) -> dict[str, spi.Json]:
        """As the dispatcher draws it: with the table's own folder as the only warehouse, where none is named."""
        return boundary_parameter(self.spec.location, extra=self.spec.properties.get("extra-locations", ""))

    def execute(self, operation: spi.Operation) -> dict[str, Any]:
        """Run the job here, on a session of its own, as the driver does; without one for a job that needs none."""
        name = operation.process.job
        job_called = import_module("lakehand.jobs.attempt").job_called
        job_type = import_module("lakehand.jobs.job").Job
        session = self.session.newSession() if self.session else None
        job = job_type(session, dict(operation.process.parameters), handle=f"{operation.id}-1")
        result: dict[str, Any] = job_called(name)(job)
        return result

    def verdict(self, operation: spi.Operation, result: Mapping[str, spi.Json]) -> spi.Verdict:
        return self.factory.verify(self.runtime(), operation.process, result)

    def settled(self, operation: spi.Operation, result: Mapping[str, spi.Json]) -> spi.Operation:
        """The operation after the table was asked; fails unless the table shows the effect."""
        verdict = self.verdict(operation, result)
        assert verdict.finding is spi.Finding.DONE, verdict
        ended = replace(operation, status=spi.Status.SUCCEEDED, reason=verdict.reason, finished_at=self.now())
        return self.remember(replace(ended, result={**result, **verdict.numbers}))

    def failure(self, operation: spi.Operation, error: BaseException) -> spi.Failure:
        """What the factory makes of an error that the job raised."""
        causes = import_module("lakehand.jobs.causes")
        cause = causes.main_cause(causes.causes_of(error))
        status = spi.EngineStatus(state=spi.EngineState.FAILED, error_class=cause.name, message=cause.message)
        return self.factory.classify(self.runtime(), operation, status)

    def serve(self, action: str) -> spi.Operation:
        """What the service does with a table that needs the action, to the end."""
        wanted = self.wants(action)
        assert isinstance(wanted, spi.TableProcess), wanted
        return self.finish(self.stored(wanted))

    def finish(self, operation: spi.Operation) -> spi.Operation:
        admitted = self.admitted(operation)
        return self.settled(admitted, self.execute(admitted))

    def remember(self, operation: spi.Operation) -> spi.Operation:
        self.history = [operation if o.id == operation.id else o for o in self.history]
        return operation
