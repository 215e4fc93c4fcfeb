# SPDX-License-Identifier: Apache-2.0
"""The switch that the loops of an instance read: while it is on, they claim nothing new and hand back what they hold.

Work is handed over only after its engine has said that it is over: until then the lease stays here.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakehand.domain.operations import OperationId
from lakehand.spi.engines import EngineState


@dataclass(slots=True, kw_only=True)
class Drain:
    """Whether this instance drains, and which work it has asked engines to stop."""

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
