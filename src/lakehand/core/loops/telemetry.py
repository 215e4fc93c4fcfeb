# SPDX-License-Identifier: Apache-2.0
"""Tells tools outside of Lakehand what ran, from a thread of its own: no loop ever waits for them."""

import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, Full, Queue
from typing import Protocol

from lakehand.core.ports import Store
from lakehand.domain.operations import Attempt, Operation
from lakehand.domain.tables import Table

log = logging.getLogger(__name__)
MOST_WAITING = 1000


class RunObserver(Protocol):
    """What the loops call. Returns at once."""

    def started(self, operation: Operation) -> None:
        """An attempt was given to its engine."""

    def ended(self, operation: Operation) -> None:
        """An attempt is over, or the operation ended before an engine had it."""


class NoObserver:
    def started(self, operation: Operation) -> None: ...

    def ended(self, operation: Operation) -> None: ...


class RunSink(Protocol):
    """One tool that is told. May take its time, and may fail."""

    name: str

    def started(self, operation: Operation, table: Table) -> None: ...

    def ended(self, operation: Operation, table: Table, attempts: Sequence[Attempt]) -> None: ...

    def close(self) -> None:
        """Send what waits, for a few seconds at most."""


class Telemetry:
    """Gives what happened to every sink, in order. Best effort: what cannot be sent is dropped, and logged once."""

    def __init__(self, store: Store, sinks: Sequence[RunSink], *, most: int = MOST_WAITING) -> None:
        self.store, self.sinks = store, sinks
        self.dropped = 0
        self._waiting: Queue[Callable[[], None]] = Queue(most)
        self._failing: set[str] = set()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        if sinks:
            self._thread.start()

    def started(self, operation: Operation) -> None:
        self._put(lambda: self._tell(operation, is_start=True))

    def ended(self, operation: Operation) -> None:
        self._put(lambda: self._tell(operation, is_start=False))

    def _put(self, job: Callable[[], None]) -> None:
        if not self.sinks:
            return
        try:
            self._waiting.put_nowait(job)
        except Full:
            self.dropped += 1
            if self.dropped == 1:
                log.warning("traces and lineage are dropped: the receiver does not keep up")

    def _run(self) -> None:
        while not (self._is_closed.is_set() and self._waiting.empty()):
            try:
                job = self._waiting.get(timeout=0.5)
            except Empty:
                continue
            try:
                job()
            except Exception:
                log.warning("an operation is missing in traces and lineage", exc_info=True)

    def _tell(self, operation: Operation, *, is_start: bool) -> None:
        table = self.store.tables.get(operation.table)
        attempts = () if is_start else self.store.operations.attempts(operation.id)
        for sink in self.sinks:
            try:
                if is_start:
                    sink.started(operation, table)
                else:
                    sink.ended(operation, table, attempts)
                self._failing.discard(sink.name)
            except Exception as error:
                if sink.name not in self._failing:
                    log.warning("not sent", extra={"sink": sink.name, "error": str(error)})
                self._failing.add(sink.name)

    def close(self, timeout: float = 5.0) -> None:
        self._is_closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        for sink in self.sinks:
            sink.close()
