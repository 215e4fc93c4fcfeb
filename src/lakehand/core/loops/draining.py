# SPDX-License-Identifier: Apache-2.0
"""Draining: the instance claims nothing new, lets running work finish, and hands back what it holds.

Work is handed over only after its engine has said that it is over: until then the lease stays here.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakehand.core.ports import Store
from lakehand.domain.events import Event
from lakehand.domain.operations import InstanceId, InstanceState, OperationId
from lakehand.spi.engines import EngineState

log = logging.getLogger(__name__)
POLL = 0.2  # seconds between two looks at what is left


@dataclass(slots=True, kw_only=True)
class Drain:
    """The switch that the loops read, and which work they have asked engines to stop."""

    clock: Callable[[], float] = time.monotonic
    is_on: bool = False
    by: str = ""
    since: datetime | None = None
    takes_back: bool = True  # what waits on an engine; else that stays for the next process of this home
    _stop_at: float | None = None  # None: running work is left alone until it ends
    _asked: dict[OperationId, EngineState] = field(default_factory=dict)  # to stop, and their states then

    def begin(
        self, *, by: str, at: datetime | None = None, timeout: timedelta | None = None, takes_back: bool = True
    ) -> None:
        """A second call changes the time-out only."""
        self._stop_at = None if timeout is None else self.clock() + timeout.total_seconds()
        if not self.is_on:
            self._asked.clear()
            self.by, self.since, self.takes_back, self.is_on = by, at, takes_back, True

    def end(self) -> None:
        """Claim again. Work that was asked to stop stops all the same, and is dispatched again."""
        self.is_on, self.by, self.since, self._stop_at = False, "", None, None

    @property
    def stops_running(self) -> bool:
        """True after the time-out: running work must stop, too."""
        return self.is_on and self._stop_at is not None and self.clock() >= self._stop_at

    def must_stop(self, operation: OperationId, state: EngineState) -> bool:
        """Work that waits on its engine is taken back at once. Each state is asked about once."""
        wanted = self.is_on and ((self.takes_back and state is EngineState.QUEUED) or self.stops_running)
        return wanted and self._asked.get(operation) is not state

    def asked(self, operation: OperationId, state: EngineState) -> None:
        self._asked[operation] = state

    def has_stopped(self, operation: OperationId, state: EngineState) -> bool:
        """True if it ended without a result because of us; after the time-out its engine may be stopped, too."""
        is_asked = operation in self._asked or self.stops_running
        return is_asked and state in (EngineState.CANCELED, EngineState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """How far an instance is."""

    instance: InstanceId
    state: InstanceState
    since: datetime | None
    by: str
    operations: int  # whose lease it holds
    evaluations: int
    messages: int  # about alerts, on their way

    @property
    def left(self) -> int:
        return self.operations + self.evaluations + self.messages


@dataclass(frozen=True, kw_only=True)
class DrainService:
    """Draining as people and signals ask for it."""

    store: Store
    drain: Drain
    holder: InstanceId
    evaluations: Callable[[], int] = lambda: 0
    messages: Callable[[], int] = lambda: 0
    wake: Callable[[], None] = lambda: None

    def begin(self, *, by: str, timeout: timedelta | None = None) -> DrainReport:
        self.drain.begin(by=by, at=self.store.clock.estimate(), timeout=timeout)
        self.wake()
        self.note("instance.draining", f"{self.holder} drains: {by} asked for it", by)
        return self.report()

    def end(self, *, by: str) -> DrainReport:
        self.drain.end()
        self.wake()
        self.note("instance.serving", f"{self.holder} takes on work: {by} asked for it", by)
        return self.report()

    def note(self, kind: str, message: str, by: str) -> None:
        log.info(message, extra={"by": by})
        event = Event(kind=kind, message=message, detail={"by": by, "instance": self.holder})
        self.store.events.add([event], now=self.store.clock.estimate())

    def report(self) -> DrainReport:
        counts = {
            "operations": len(self.store.operations.held(self.holder)), "evaluations": self.evaluations(),
            "messages": self.messages(),
        }  # fmt: skip
        drained = InstanceState.DRAINING if sum(counts.values()) else InstanceState.DRAINED
        state = drained if self.drain.is_on else InstanceState.SERVING
        return DrainReport(instance=self.holder, state=state, since=self.drain.since, by=self.drain.by, **counts)

    def wait(self, timeout: timedelta) -> bool:
        """True when nothing is left. A database that does not answer ends the wait: nothing can be handed back."""
        end = self.drain.clock() + timeout.total_seconds()
        try:
            while self.report().left:
                if self.drain.clock() >= end:
                    return False
                time.sleep(POLL)
        except Exception as error:
            log.warning("it is not known what is left", extra={"reason": str(error)})
            return False
        return True
