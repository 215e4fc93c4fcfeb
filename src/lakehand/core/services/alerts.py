# SPDX-License-Identifier: Apache-2.0
"""Alerts as people ask for them: list, silence, and send a test."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from lakehand.api.alerts import AlertQuery, SilenceRequest, TestAnswer, TestRequest
from lakehand.core.loops.alert_sender import Receiver, check_text
from lakehand.core.plugins.pools import WorkerPools
from lakehand.core.ports import Page, Store
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.domain.access import AuditRequest, Caller, Role
from lakehand.domain.alerts import Alert, AlertId, Severity
from lakehand.domain.errors import Conflict, Invalid, LakehandError, NotFound
from lakehand.domain.events import Event

TEST_TIMEOUT = 15.0  # seconds
LONGEST_SILENCE = timedelta(days=30)


@dataclass(frozen=True, kw_only=True)
class AlertService:
    store: Store
    audit: AuditTrail
    receivers: Mapping[str, Receiver] = field(default_factory=dict)
    pools: WorkerPools = field(default_factory=lambda: WorkerPools(purpose="alert-test", size=2, timeout=TEST_TIMEOUT))
    test_timeout: float = TEST_TIMEOUT

    def list(self, query: AlertQuery) -> Page[Alert]:
        return self.store.alerts.list(only_open=query.state == "open", limit=query.limit, cursor=query.cursor)

    def counts(self) -> Mapping[Severity, int]:
        """Open alerts by severity."""
        return self.store.alerts.counts()

    def silence(self, caller: Caller, id: AlertId, wanted: SilenceRequest) -> Alert:
        """No reminder for so long, counted from now."""
        cause, duration = self.store.alerts.get(id).cause, timedelta(seconds=wanted.duration)
        request = AuditRequest(
            caller=caller, action="alert.silence", subject=cause.title, table=cause.table, operation=cause.operation,
            detail={"alert": id, "seconds": duration.total_seconds()},
        )  # fmt: skip

        def allow() -> None:
            caller.need(Role.OPERATOR)
            if cause.owner:
                caller.need_owner(cause.owner)
            else:
                caller.need_everything()

        with self.audit.record(request, allow) as outcome:
            silenced = self.silence_for(duration, id, by=caller.name)
            outcome.after = {"until": f"{silenced.silenced_until:%Y-%m-%dT%H:%M:%SZ}"}
        return silenced

    def silence_for(self, duration: timedelta, id: AlertId, *, by: str) -> Alert:
        if not timedelta() < duration <= LONGEST_SILENCE:
            raise Invalid(f"an alert can be silenced for at most {LONGEST_SILENCE.days} days")
        if not self.store.alerts.get(id).is_open:
            raise Conflict(f"alert {id} is resolved: there is nothing to silence")
        now = self.store.clock.now()
        until = now + duration
        message = f"alert {id} was silenced until {until:%Y-%m-%d %H:%M} UTC by {by}"
        event = Event(kind="alert.silenced", message=message, detail={"by": by, "alert": id})
        return self.store.alerts.silence(id, until=until, now=now, event=event)

    def test(self, caller: Caller, wanted: TestRequest) -> Sequence[TestAnswer]:
        """Send a message to one receiver or to all, now, and wait a few seconds for each answer."""
        request = AuditRequest(caller=caller, action="alert.test", subject=wanted.receiver or "all receivers")
        with self.audit.record(request, lambda: caller.need_for_all(Role.OPERATOR)) as outcome:
            results = self.send_test(wanted.receiver, by=caller.name)
            outcome.after = {one.receiver: one.problem or "sent" for one in results}
        return results

    def send_test(self, receiver: str | None, *, by: str) -> Sequence[TestAnswer]:
        if receiver is not None and receiver not in self.receivers:
            known = ", ".join(sorted(self.receivers)) or "none"
            raise NotFound(f"there is no receiver {receiver!r} in the settings; there are: {known}")
        names = sorted(self.receivers) if receiver is None else [receiver]
        attempts = [TestAttempt(self.receivers[name], by) for name in names]
        for one in attempts:
            self.pools.submit(one.receiver.name, one.run, one.fail)
        results = [one.result(self.test_timeout) for one in attempts]
        self.note(results, by)
        return results

    def note(self, results: Sequence[TestAnswer], by: str) -> None:
        outcome = ", ".join(f"{one.receiver}: {one.problem or 'sent'}" for one in results) or "there is no receiver"
        message = f"a test message was asked for by {by}; {outcome}"
        event = Event(kind="alert.tested", message=message, detail={"by": by})
        self.store.events.add([event], now=self.store.clock.now())


class TestAttempt:
    """A test message on its way."""

    __test__ = False

    def __init__(self, receiver: Receiver, by: str) -> None:
        self.receiver = receiver
        self.text = check_text(receiver.name, by)
        self.problem = ""
        self._done = threading.Event()

    def run(self) -> None:
        try:
            self.receiver.send(self.text)
        except (OSError, LakehandError) as error:
            self.problem = self.receiver.hidden(error) or type(error).__name__
        self._done.set()

    def fail(self, why: str) -> None:
        self.problem = why
        self._done.set()

    def result(self, timeout: float) -> TestAnswer:
        problem = self.problem if self._done.wait(timeout) else f"no answer within {timeout:g} s"
        return TestAnswer(receiver=self.receiver.name, sent=not problem, problem=problem)
