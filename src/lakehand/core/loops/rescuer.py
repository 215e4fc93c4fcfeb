# SPDX-License-Identifier: Apache-2.0
"""Takes over operations whose lease has run out. By then the old attempt has stopped itself."""

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lakehand.core.loops.draining import Drain
from lakehand.core.plugins.recovery import Recovery
from lakehand.core.ports import Metrics, Store
from lakehand.domain.errors import LeaseLost
from lakehand.domain.events import operation_event
from lakehand.domain.operations import InstanceId, Operation, Status

log = logging.getLogger(__name__)
BATCH = 50


@dataclass(frozen=True, kw_only=True)
class Rescuer:
    store: Store
    metrics: Metrics
    holder: InstanceId
    time_to_live: timedelta
    margin: timedelta  # between the end of a lease and the moment when a rival may take it
    recovery: Recovery
    drain: Drain = field(default_factory=Drain)

    def adopt(self) -> int:
        """After a restart: lease our own rows again with fresh tokens, so that the former process can write nothing.

        Evaluations that were under way are due again at once. Returns how many operations were found.
        """
        now = self.store.clock.now()
        self.store.schedules.release(self.holder)
        return sum(self.take(o, now, "found again after a restart") for o in self.store.operations.held(self.holder))

    def hand_back(self) -> None:
        """When the process stops: what no engine has is free for other instances at once."""
        now = self.store.clock.now()
        self.store.schedules.release(self.holder)
        for operation in self.store.operations.held(self.holder):
            if operation.status is Status.PENDING:
                with suppress(LeaseLost):
                    self.store.operations.save(operation, now=now, release=True)

    def run_once(self) -> bool:
        """Take over one batch of late rows. True when the batch was full."""
        if self.drain.is_on:
            return False
        now = self.store.clock.now()
        late = self.store.operations.late(now=now, margin=self.margin, limit=BATCH)
        for operation in late:
            self.take(operation, now, f"taken over from {operation.lease.holder if operation.lease else 'nobody'}")
        return len(late) == BATCH

    def take(self, operation: Operation, now: datetime, why: str) -> bool:
        taken = self.store.operations.take_over(operation, holder=self.holder, now=now, time_to_live=self.time_to_live)
        if taken is None:
            return False
        self.recovery.take(taken)
        log.info("taken over", extra={"operation": taken.id, "status": taken.status, "reason": why})
        event = operation_event(taken, "operation.rescued", why)
        try:
            if taken.status is Status.PENDING:
                put_back = replace(taken, reason=f"{why} before an engine had it")
                self.store.operations.save(put_back, now=now, event=event, release=True)
            else:
                self.store.operations.save(taken, now=now, event=event)
        except LeaseLost:
            return False
        return True
