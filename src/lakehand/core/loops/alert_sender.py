# SPDX-License-Identifier: Apache-2.0
"""Sends the messages of the outbox. A receiver that hangs or refuses slows neither the others nor the service."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from lakehand.core.loops.draining import Drain
from lakehand.core.plugins.breakers import CircuitBreaker
from lakehand.core.plugins.pools import WorkerPools, call_plugin
from lakehand.core.ports import Metrics, Store
from lakehand.domain.alerts import Alert, AlertMessage, MessageId, MessageKind, Severity
from lakehand.domain.errors import LakehandError, TryLater, Unavailable
from lakehand.domain.events import Event
from lakehand.domain.masks import Masks, parts_of
from lakehand.domain.operations import InstanceId
from lakehand.domain.processes import Json, back_off
from lakehand.domain.texts import visible
from lakehand.spi.alerters import Alerter, AlertText

log = logging.getLogger(__name__)
AT_ONCE = 1  # messages on their way to one receiver: a process that dies repeats no more than this one
LEASE = timedelta(minutes=2)  # far longer than the deadline of one call
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=10), timedelta(minutes=15)
GIVE_UP = timedelta(days=3)
LONGEST_TITLE, LONGEST_BODY = 200, 2000


@dataclass(kw_only=True)
class Receiver:
    """Where messages go. Its properties are never shown: its URL and its secret are among them."""

    name: str
    alerter: Alerter | None
    problem: str = ""  # why it has no alerter
    secrets: tuple[str, ...] = field(default=(), repr=False)
    breaker: CircuitBreaker = field(init=False)

    def __post_init__(self) -> None:
        masks = Masks(frozenset(part for secret in self.secrets for part in (secret, *parts_of(secret))))
        self.breaker = CircuitBreaker(kind="alerter", name=self.name, masks=masks)

    def send(self, text: AlertText) -> None:
        """Under the deadline of the pool whose thread this is."""
        if self.alerter is None:
            raise Unavailable(self.problem)
        call_plugin(self.breaker, "", "send", lambda _: None, self.alerter.send, text)

    def hidden(self, error: object) -> str:
        """The error without any part of the secrets."""
        return self.breaker.masks.hide(str(error))[:1000]


@dataclass(kw_only=True)
class AlertSender:
    store: Store
    metrics: Metrics
    receivers: Mapping[str, Receiver]
    pools: WorkerPools
    holder: InstanceId
    wake: Callable[[], None] = lambda: None
    time_to_live: timedelta = LEASE
    drain: Drain = field(default_factory=Drain)
    _in_flight: Counter[str] = field(default_factory=Counter)
    _unstored: dict[MessageId, AlertMessage] = field(default_factory=dict)  # sent, and that is not stored yet
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def adopt(self) -> int:
        """After a restart: what the former process had claimed is sent by this one, without waiting for the lease."""
        return self.store.alerts.release(self.holder)

    def run_once(self) -> bool:
        if not self.receivers:
            return False
        now = self.store.clock.now()
        self.store_late(now)
        if self.drain.is_on:
            return False
        for name in self.store.alerts.due_receivers(now=now):
            if name in self.receivers:
                self.serve(self.receivers[name], now)
        return False

    @property
    def unfinished(self) -> int:
        with self._lock:
            return self._in_flight.total() + len(self._unstored)

    def store_late(self, now: datetime) -> None:
        """Store what was sent while the database did not take it, before the lease ends and it is sent again."""
        for message in list(self._unstored.values()):
            self.store.alerts.finish(message, now=now)
            self._unstored.pop(message.id, None)

    def serve(self, receiver: Receiver, now: datetime) -> None:
        """Claim no more than can be sent at once: a claimed message must not wait."""
        free = AT_ONCE - self._in_flight[receiver.name]
        if free <= 0:
            return
        messages = self.store.alerts.claim(
            receiver.name, holder=self.holder, now=now, time_to_live=self.time_to_live, limit=free
        )
        for message in messages:
            self.count(receiver, 1)
            self.pools.submit(
                receiver.name, partial(self.send, receiver, message), partial(self.abandoned, receiver, message)
            )

    def send(self, receiver: Receiver, message: AlertMessage) -> None:
        try:
            if message.id not in self._unstored:
                receiver.send(text_of(message))
        except Exception as error:  # whatever it is, the message stays, and the receiver keeps its threads
            self.end(receiver, partial(self.postpone, receiver, message, error))
        else:
            self.end(receiver, partial(self.finish, receiver, message))

    def abandoned(self, receiver: Receiver, message: AlertMessage, why: str) -> None:
        """The call hangs. If it still gets through, the message is repeated once."""
        self.end(receiver, partial(self.postpone, receiver, message, Unavailable(why)))

    def end(self, receiver: Receiver, store: Callable[[], None]) -> None:
        """The receiver is free again when the outcome is stored, so that a crash repeats one message at most."""
        try:
            store()
        except LakehandError as error:  # the lease runs out, and the message is claimed again
            log.warning("a message's outcome was not stored", extra={"receiver": receiver.name, "error": str(error)})
        finally:
            self.count(receiver, -1)
        self.wake()

    def finish(self, receiver: Receiver, message: AlertMessage) -> None:
        try:
            is_ours = self.store.alerts.finish(message, now=self.store.clock.now())
        except LakehandError:
            self._unstored[message.id] = message
            raise
        if not is_ours:
            log.warning("a message was sent after its lease", extra={"receiver": receiver.name, "id": message.id})
        self._unstored.pop(message.id, None)
        self.metrics.alert_message(receiver.name, "sent")

    def postpone(self, receiver: Receiver, message: AlertMessage, error: Exception) -> None:
        now, why = self.store.clock.now(), receiver.hidden(error)
        wait = back_off(message.attempts, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        due = now + max(wait, error.again if isinstance(error, TryLater) else wait)
        is_over = now - message.created_at > GIVE_UP
        self.store.alerts.postpone(message, error=why, due=None if is_over else due, now=now)
        self.metrics.alert_message(receiver.name, "given-up" if is_over else "failed")
        log.warning("a message was not sent", extra={"receiver": receiver.name, "reason": why, "given_up": is_over})
        if is_over:
            self.store.events.add([given_up_event(receiver.name, why)], now=now)

    def count(self, receiver: Receiver, change: int) -> None:
        with self._lock:
            self._in_flight[receiver.name] += change


def given_up_event(receiver: str, why: str) -> Event:
    message = f"messages to {receiver} were given up after {GIVE_UP.days} days: {why}"
    return Event.counted("alert.given-up", message, {"receiver": receiver})


def text_of(message: AlertMessage) -> AlertText:
    if message.alert is None:
        return summary_text(message)
    alert, cause = message.alert, message.alert.cause
    word = cause.severity if message.kind is MessageKind.OPENED else message.kind
    return AlertText(
        id=str(message.id), kind=str(message.kind), severity=str(cause.severity),
        title=cut(f"[{word}] {visible(cause.title)}", LONGEST_TITLE), body=body_of(alert, message.kind),
        facts=facts_of(alert),
    )  # fmt: skip


def summary_text(message: AlertMessage) -> AlertText:
    body = "Many alerts opened within a minute; these have no message of their own: see lakehand alerts list."
    return AlertText(
        id=str(message.id), kind=str(message.kind), severity=str(message.severity),
        title=f"[{message.severity}] and {message.more} more alerts", body=body, facts={"more": message.more},
    )  # fmt: skip


def check_text(receiver: str, by: str) -> AlertText:
    body = f"{visible(by)} asked Lakehand to send it. Nothing is wrong."
    title = f"[test] Lakehand can reach {receiver}"
    return AlertText(id="test", kind=str(MessageKind.TEST), severity=str(Severity.WARNING), title=title, body=body)


def body_of(alert: Alert, kind: MessageKind) -> str:
    cause = alert.cause
    is_over = kind is MessageKind.RESOLVED and alert.resolved_at is not None
    lines = [
        f"over since {alert.resolved_at:%Y-%m-%d %H:%M} UTC" if is_over else cut(visible(cause.message), LONGEST_BODY),
        f"since {alert.opened_at:%Y-%m-%d %H:%M} UTC" + (f", {alert.count} times" if alert.count > 1 else ""),
        *(f"{name}: {visible(value)}" for name, value in named(alert) if value),
    ]
    return "\n".join(lines)


def named(alert: Alert) -> list[tuple[str, object]]:
    cause = alert.cause
    return [
        ("owner", cause.owner), ("queue", cause.queue), ("format", cause.format), ("table", cause.table),
        ("operation", cause.operation), ("instance", cause.instance), ("alert", alert.id),
    ]  # fmt: skip


def facts_of(alert: Alert) -> dict[str, Json]:
    cause = alert.cause
    return {
        "id": alert.id, "cause": cause.key, "kind": str(cause.kind), "severity": str(cause.severity),
        "message": cut(visible(cause.message), LONGEST_BODY), "table": cause.table, "operation": cause.operation,
        "owner": cause.owner, "queue": cause.queue, "format": cause.format, "instance": cause.instance,
        "count": alert.count, "opened_at": alert.opened_at.isoformat(),
        "resolved_at": alert.resolved_at.isoformat() if alert.resolved_at else None,
    }  # fmt: skip


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
