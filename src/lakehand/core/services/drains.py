# SPDX-License-Identifier: Apache-2.0
"""Draining as people and signals ask for it."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from lakehand.api.fields import span
from lakehand.api.service import DrainAnswer, DrainRequest
from lakehand.core.loops.draining import Drain
from lakehand.core.ports import Store
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.domain.access import AuditRequest, Caller, Role
from lakehand.domain.events import Event
from lakehand.domain.operations import InstanceId, InstanceState

log = logging.getLogger(__name__)
POLL = 0.2  # seconds between two looks at what is left


@dataclass(frozen=True, kw_only=True)
class DrainService:
    store: Store
    audit: AuditTrail
    drain: Drain
    holder: InstanceId
    evaluations: Callable[[], int] = lambda: 0
    messages: Callable[[], int] = lambda: 0
    wake: Callable[[], None] = lambda: None

    def begin(self, caller: Caller, wanted: DrainRequest) -> DrainAnswer:
        timeout = span(wanted.timeout)
        detail = {} if timeout is None else {"seconds": timeout.total_seconds()}
        request = AuditRequest(caller=caller, action="instance.drain", subject=self.holder, detail=detail)
        with self.audit.record(request, lambda: caller.need_for_all(Role.OPERATOR)) as outcome:
            report = self.begin_now(by=caller.name, timeout=timeout)
            outcome.after = {"state": report.state, "operations": report.operations}
        return report

    def begin_now(self, *, by: str, timeout: timedelta | None = None) -> DrainAnswer:
        self.drain.begin(by=by, at=self.store.clock.estimate(), timeout=timeout)
        self.wake()
        self.note("instance.draining", f"{self.holder} drains: {by} asked for it", by)
        return self.report()

    def end(self, caller: Caller) -> DrainAnswer:
        request = AuditRequest(caller=caller, action="instance.resume", subject=self.holder)
        with self.audit.record(request, lambda: caller.need_for_all(Role.OPERATOR)) as outcome:
            self.drain.end()
            self.wake()
            self.note("instance.serving", f"{self.holder} takes on work: {caller.name} asked for it", caller.name)
            report = self.report()
            outcome.after = {"state": report.state}
        return report

    def note(self, kind: str, message: str, by: str) -> None:
        log.info(message, extra={"by": by})
        event = Event(kind=kind, message=message, detail={"by": by, "instance": self.holder})
        self.store.events.add([event], now=self.store.clock.estimate())

    def report(self) -> DrainAnswer:
        counts = {
            "operations": len(self.store.operations.held(self.holder)), "evaluations": self.evaluations(),
            "messages": self.messages(),
        }  # fmt: skip
        drained = InstanceState.DRAINING if sum(counts.values()) else InstanceState.DRAINED
        state = drained if self.drain.is_on else InstanceState.SERVING
        return DrainAnswer(instance=self.holder, state=state.value, since=self.drain.since, by=self.drain.by, **counts)

    def is_empty(self) -> bool:
        """Whether this instance holds nothing that others could take."""
        report = self.report()
        return not report.operations + report.evaluations + report.messages

    def wait(self, timeout: timedelta) -> bool:
        """True when nothing is left. A database that does not answer ends the wait: nothing can be handed back."""
        end = self.drain.clock() + timeout.total_seconds()
        try:
            while not self.is_empty():
                if self.drain.clock() >= end:
                    return False
                time.sleep(POLL)
        except Exception as error:
            log.warning("it is not known what is left", extra={"reason": str(error)})
            return False
        return True
