# SPDX-License-Identifier: Apache-2.0
"""Instances in processes of their own that are killed while they send messages to a real HTTP server."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from lakehand.alerters.webhook import WebhookAlerter
from lakehand.core.loops.alert_sender import AlertSender, Receiver
from lakehand.core.loops.alerts import AlertMonitor
from lakehand.core.plugins.pools import WorkerPools
from lakehand.domain.alerts import AlertRules
from lakehand.domain.operations import InstanceId, Status
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.store import SqlStore, open_store
from lakehand.store.schema import alert_message
from tests.alerters.receivers import HttpReceiver, http_receiver
from tests.core.test_alerts import a_table, run
from tests.core.world import PassedClock
from tests.kit.polling import wait_for
from tests.kit.tiers import long_values

SPAWN = multiprocessing.get_context("spawn")
TABLES = 60
TIMEOUT = 90.0  # seconds


def serve_instance(url: str, name: str, hook: str) -> None:
    """One instance in a process of its own, with real time and a real webhook, until it is killed."""
    webhook = WebhookAlerter()
    webhook.open({"url": hook, "secret": "a-secret-of-the-receiver"})
    store, metrics = open_store(url), PrometheusMetrics()
    receivers = {"ops": Receiver(name="ops", alerter=webhook)}
    sender = AlertSender(
        store=store, metrics=metrics, receivers=receivers, holder=InstanceId(name),
        pools=WorkerPools(purpose="alert", size=2, timeout=20.0), time_to_live=timedelta(seconds=20),
    )  # fmt: skip
    monitor = AlertMonitor(
        store=store, metrics=metrics, rules=AlertRules(receivers=("ops",), most_per_minute=1000),
        holder=InstanceId(name), engines=dict, plugins=list, free_disk=lambda: 1.0, settle=timedelta(),
    )  # fmt: skip
    sender.adopt()
    while True:
        monitor.run_once()
        for _ in range(20):
            sender.run_once()
            time.sleep(0.005)


def unsent(store: SqlStore) -> str:
    m = alert_message.c
    query = select(m.kind, m.attempts, m.last_error, m.lease_holder).where(m.end_time.is_(None))
    return str(store.database.read(lambda tx: tx.execute(query).all()))


class Instances:
    """Three instances over one database."""

    def __init__(self, url: str, hook: HttpReceiver) -> None:
        self.url, self.hook = url, hook
        self.processes: dict[str, Any] = {}

    def start(self, name: str) -> None:
        process = SPAWN.Process(target=serve_instance, args=(self.url, name, self.hook.url), daemon=True)
        process.start()
        self.processes[name] = process

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].join()

    def kill_while_sending(self, name: str) -> None:
        seen = len(self.hook.requests)
        wait_for(lambda: len(self.hook.requests) > seen, "another message", TIMEOUT, pace=0.005)
        self.kill(name)
        self.start(name)


@contextmanager
def three_instances(url: str, hook: HttpReceiver) -> Iterator[Instances]:
    made = Instances(url, hook)
    try:
        for name in ("one", "two", "three"):
            made.start(name)
        yield made
    finally:
        for name in made.processes:
            made.kill(name)


def ids(hook: HttpReceiver) -> Counter[str]:
    return Counter(headers["Lakehand-Message"] for headers, _ in list(hook.requests))


@pytest.mark.server
@pytest.mark.parametrize("kills", [6, *long_values(0)])
def test_instances_that_are_killed_again_and_again_lose_no_message(store: SqlStore, url: str, kills: int) -> None:
    """Each kill may repeat the one message that was on its way, and no more."""
    clock = PassedClock(store.clock.now())
    with http_receiver() as hook, three_instances(url, hook) as instances:
        tables = [a_table(store, clock, f"table{number}") for number in range(TABLES)]
        for number, table in enumerate(tables):
            run(store, clock, table, 1, Status.FAILED)
            if number % 10 == 5 and number // 10 < kills:
                instances.kill_while_sending(("one", "two", "three")[number // 10 % 3])
        wait_for(lambda: len(store.alerts.open_alerts()) == TABLES, "all alerts to open", TIMEOUT)
        for table in tables:
            run(store, clock, table, 2, Status.SUCCEEDED)
        wait_for(lambda: not store.alerts.open_alerts(), "all alerts to be resolved", TIMEOUT)
        wait_for(lambda: len(ids(hook)) == 2 * TABLES, f"these: {unsent(store)}", TIMEOUT)

    repeated = sum(ids(hook).values()) - 2 * TABLES
    print(f"{2 * TABLES} messages, none lost, {repeated} repeated after {kills} kills")  # noqa: T201
    assert repeated <= kills
