# SPDX-License-Identifier: Apache-2.0
"""From a cause to its messages: one per cause, sent once, whatever instances and receivers do meanwhile."""

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from lakehand.core.loops.alert_sender import AlertSender, Receiver
from lakehand.core.loops.alerts import AlertLimits, AlertMonitor
from lakehand.core.loops.loop import Loop
from lakehand.core.plugins.pools import WorkerPools
from lakehand.domain.alerts import AlertRules
from lakehand.domain.errors import Unavailable
from lakehand.domain.operations import InstanceId, NewOperation, Status
from lakehand.domain.processes import Instant, TableProcess
from lakehand.domain.tables import Table, TableSpec
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.spi.alerters import AlertText
from lakehand.spi.engines import EngineHealth
from lakehand.store import SqlStore, open_store
from lakehand.store.schema import schedule
from tests.alerters.mailboxes import Mailbox
from tests.core.waiting import eventually
from tests.core.world import HUDI, PassedClock
from tests.domain.words import COMPACTION
from tests.kit.sentences import Sentences

TTL = timedelta(minutes=1)


class Instance:
    """The two loops of one instance over a store, and its receivers."""

    def __init__(self, store: SqlStore, clock: PassedClock, name: str = "one", **mailboxes: Mailbox) -> None:
        self.store, self.clock = store, clock
        store.clock = clock  # type: ignore[assignment]
        self.engines: dict[str, EngineHealth] = {}
        self.free = 0.5
        self.mailboxes = mailboxes
        self.receivers = {
            name: Receiver(name=name, alerter=box, secrets=("https://example.com/hooks/hush-hush",))
            for name, box in mailboxes.items()
        }
        self.pools = WorkerPools(purpose="alert", size=2, timeout=20.0)
        self.metrics = PrometheusMetrics()
        self.monitor = AlertMonitor(
            store=store, metrics=self.metrics, rules=AlertRules(receivers=tuple(mailboxes)), holder=InstanceId(name),
            engines=lambda: self.engines, plugins=list, free_disk=lambda: self.free, limits=AlertLimits(),
        )  # fmt: skip
        self.sender = AlertSender(
            store=store, metrics=self.metrics, receivers=self.receivers, pools=self.pools, holder=InstanceId(name)
        )

    def look(self, **passed: float) -> None:
        self.clock.pass_by(**passed)
        self.monitor.run_once()

    def deliver(self) -> None:
        """Until nothing is due any more, apart from receivers that hang."""
        hanging = {name for name, box in self.mailboxes.items() if not box.gate.is_set()}
        while set(self.store.alerts.due_receivers(now=self.clock.now())) - hanging:
            self.sender.run_once()
            assert eventually(lambda: not self.pools.busy() - hanging)


@pytest.fixture
def clock() -> PassedClock:
    return PassedClock()


@pytest.fixture
def ops() -> Mailbox:
    return Mailbox()


@pytest.fixture
def one(store: SqlStore, clock: PassedClock, ops: Mailbox) -> Instance:
    return Instance(store, clock, ops=ops)


def a_table(store: SqlStore, clock: PassedClock, name: str = "orders") -> Table:
    spec = TableSpec(location=f"/w/{name}", format=HUDI, table_name=name, action_types=frozenset({COMPACTION}))
    return store.tables.add(spec, now=clock.now())[0]


def run(store: SqlStore, clock: PassedClock, table: Table, number: int, status: Status) -> None:
    """An operation that ends with this status."""
    new = NewOperation(table=table.id, instant=Instant(f"{number:017d}"), process=TableProcess(action=COMPACTION))
    operation, _ = store.operations.add(new, now=clock.now())
    held = store.operations.claim(operation, holder=InstanceId("one"), now=clock.now(), time_to_live=TTL)
    assert held is not None
    started = store.operations.save(held.moved_to(Status.SUBMITTED, at=clock.now(), reason="sent"), now=clock.now())
    store.operations.save(started.moved_to(status, at=clock.now(), reason="it ended"), now=clock.now())


def fail_again(store: SqlStore, table: Table, operation: int) -> None:
    """What the end of another failed operation leaves in the schedule."""
    failed = update(schedule).where(schedule.c.tbl_id == table.id).values(failed_operation=operation)
    store.database.write(lambda tx: tx.execute(failed))


def test_a_thousand_failures_of_one_cause_are_one_message_and_one_when_it_is_over(
    store: SqlStore, clock: PassedClock, one: Instance, ops: Mailbox, sentences: Sentences
) -> None:
    table = a_table(store, clock)
    run(store, clock, table, 1, Status.FAILED)
    one.look()
    for number in range(2, 1001):
        fail_again(store, table, number)
        if number % 20 == 0:
            one.look(seconds=15)
    one.deliver()

    [alert] = store.alerts.open_alerts()
    cause = f"operation-failed:{table.id}:compaction"
    assert (alert.count, ops.sent) == (51, [f"opened {cause}"])
    sentences.check("title of a failed operation", ops.texts[0].title, action="compaction", table="orders")

    run(store, clock, table, 1001, Status.SUCCEEDED)
    one.look()
    one.look(minutes=2)
    one.deliver()
    assert ops.sent == [f"opened {cause}", f"resolved {cause}"]
    assert store.alerts.open_alerts() == []


def test_a_cause_that_flickers_is_one_alert(
    store: SqlStore, clock: PassedClock, one: Instance, ops: Mailbox, sentences: Sentences
) -> None:
    for free in (0.01, 0.5) * 20:
        one.free = free
        one.look(seconds=15)
    one.deliver()

    assert ops.sent == ["opened disk-full:one"]
    sentences.check("title of a full disk", ops.texts[0].title, instance="one")


def test_an_engine_that_is_down_while_it_has_work_is_an_alert_until_it_is_up(
    store: SqlStore, clock: PassedClock, one: Instance, ops: Mailbox, sentences: Sentences
) -> None:
    new = NewOperation(table=a_table(store, clock).id, instant=Instant("1"), process=TableProcess(action=COMPACTION))
    operation, _ = store.operations.add(new, now=clock.now())
    one.engines["spark"] = EngineHealth(is_up=False, detail="no Java")
    one.look()
    one.look(minutes=6)
    assert store.alerts.open_alerts() == []  # an engine without work may be down

    store.operations.claim(operation, holder=InstanceId("one"), now=clock.now(), time_to_live=TTL)
    one.look()
    one.look(minutes=6)
    one.engines["spark"] = EngineHealth(is_up=True, detail="runs")
    one.look()
    one.look(minutes=2)
    one.deliver()

    assert ops.sent == ["opened engine-down:one:spark", "resolved engine-down:one:spark"]
    sentences.check("title of an engine that is down", ops.texts[0].title, engine="spark", instance="one")


def test_a_queue_that_is_stuck_is_an_alert(
    store: SqlStore, clock: PassedClock, one: Instance, ops: Mailbox, sentences: Sentences
) -> None:
    new = NewOperation(
        table=a_table(store, clock).id, instant=Instant("1"), process=TableProcess(action=COMPACTION), queue="night"
    )
    store.operations.add(new, now=clock.now())

    one.look(minutes=59)
    assert store.alerts.open_alerts() == []
    one.look(minutes=1)
    one.deliver()

    assert ops.sent == ["opened queue-stuck:night"]
    sentences.check("title of a queue that is stuck", ops.texts[0].title, queue="night")


def test_a_table_is_unreadable_after_a_few_minutes_only(
    store: SqlStore, clock: PassedClock, one: Instance, ops: Mailbox, sentences: Sentences
) -> None:
    table = a_table(store, clock)
    store.probes.finish({table.id: clock.now()}, {}, now=clock.now(), problems={table.id: "no such file"})

    one.look(minutes=4)
    assert store.alerts.open_alerts() == []
    one.look(minutes=1)
    one.deliver()

    assert ops.sent == [f"opened table-unreadable:{table.id}"]
    sentences.check("title of a table that cannot be read", ops.texts[0].title, table="orders")


def test_a_reminder_comes_once_a_day_and_not_while_silenced(
    store: SqlStore, clock: PassedClock, one: Instance, ops: Mailbox
) -> None:
    one.free = 0.01
    for _ in range(3):
        one.look(hours=12.5)
        one.deliver()

    assert ops.sent == ["opened disk-full:one", "reminder disk-full:one"]
    assert f"since {store.alerts.open_alerts()[0].opened_at:%Y-%m-%d}" in ops.texts[-1].body


def test_two_instances_open_a_cause_once_and_send_each_message_once(
    store: SqlStore, url: str, clock: PassedClock, ops: Mailbox
) -> None:
    tables = [a_table(store, clock, f"table{number}") for number in range(40)]
    for table in tables:
        run(store, clock, table, 1, Status.FAILED)
    instances = [Instance(open_store(url), clock, name, ops=ops) for name in ("one", "two")]

    def work(instance: Instance) -> None:
        instance.monitor.run_once()
        for _ in range(60):
            instance.sender.run_once()

    threads = [threading.Thread(target=work, args=(instance,)) for instance in instances]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for instance in instances:
        instance.deliver()
        assert eventually(lambda one=instance: not one.pools.busy())  # type: ignore[misc]

    assert (len(ops.sent), ops.repeated, len(store.alerts.open_alerts())) == (40, 0, 40)


def test_a_message_is_sent_after_the_store_was_opened_again(
    store: SqlStore, url: str, clock: PassedClock, one: Instance, ops: Mailbox
) -> None:
    one.free = 0.01
    one.look()
    [claimed] = store.alerts.claim("ops", holder=InstanceId("one"), now=clock.now(), time_to_live=TTL, limit=1)
    store.close()  # the process is gone, with a message that it has claimed

    again = Instance(open_store(url), clock, ops=ops)
    assert again.sender.adopt() == 1
    again.deliver()

    assert [text.id for text in ops.texts] == [str(claimed.id)]


def send_and_die(url: str, folder: str) -> None:
    """The process dies when the first message is on its way, before anything is stored."""

    class Deadly(Mailbox):
        def send(self, text: AlertText) -> None:
            Path(folder, text.id).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    instance = Instance(open_store(url), PassedClock(), ops=Deadly())
    instance.free = 0.01
    instance.look()
    instance.deliver()


@pytest.mark.server
def test_a_process_that_is_killed_while_sending_loses_nothing_and_repeats_one_message_at_most(
    store: SqlStore, url: str, clock: PassedClock, ops: Mailbox, tmp_path: Path
) -> None:
    process = multiprocessing.get_context("spawn").Process(target=send_and_die, args=(url, str(tmp_path)))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL

    after = Instance(store, clock, ops=ops)
    after.free = 0.01
    after.sender.adopt()
    after.look()
    after.deliver()

    assert ops.sent == ["opened disk-full:one"]
    assert Path(tmp_path, ops.texts[0].id).exists()
    assert len(store.alerts.open_alerts()) == 1


def test_a_receiver_that_was_down_gets_each_message_once_and_in_order(
    store: SqlStore, clock: PassedClock, one: Instance, ops: Mailbox
) -> None:
    ops.is_down = True
    one.free = 0.01
    one.look()
    for _ in range(10):
        one.deliver()
        clock.pass_by(minutes=15)
    one.free = 0.5
    one.look()
    one.look(minutes=2)
    one.deliver()
    assert (ops.sent, ops.attempts) == ([], 11)

    ops.is_down = False
    clock.pass_by(minutes=15)
    one.deliver()

    assert (ops.sent, ops.repeated) == (["opened disk-full:one", "resolved disk-full:one"], 0)


def test_an_error_never_shows_the_address_of_a_receiver(
    store: SqlStore, one: Instance, ops: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    ops.is_down = True
    one.free = 0.01
    one.look()
    one.deliver()

    assert "***" in " ".join(str(record.__dict__.get("reason")) for record in caplog.records)
    assert "hush" not in " ".join(str(record.__dict__) for record in caplog.records)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_a_receiver_that_hangs_holds_up_neither_the_others_nor_the_loops(
    store: SqlStore, clock: PassedClock, ops: Mailbox, stack: ExitStack
) -> None:
    stuck = Mailbox()
    stuck.gate.clear()
    stack.callback(stuck.gate.set)
    one = Instance(store, clock, ops=ops, stuck=stuck)
    for number in range(10):
        run(store, clock, a_table(store, clock, f"table{number}"), 1, Status.FAILED)

    steps: Counter[str] = Counter()

    def counted(name: str, step: Any) -> Any:
        def run_once() -> bool:
            steps[name] += 1
            return bool(step())

        return run_once

    for name, step in (("alerts", one.monitor.run_once), ("alert-sender", one.sender.run_once)):
        loop = Loop(name=name, run_once=counted(name, step), pause=lambda: 0.01, metrics=one.metrics)
        loop.start()
        stack.callback(loop.stop)

    assert eventually(lambda: len(ops.sent) == 10)
    before = dict(steps)
    assert eventually(lambda: all(steps[name] > before[name] + 3 for name in before))
    assert (stuck.attempts, stuck.sent) == (1, [])

    # The deadline passes: the call is abandoned, and the messages are due again later.
    one.pools.abandon_overdue(now=time.monotonic() + 3600)
    clock.pass_by(hours=1)
    assert "stuck" in store.alerts.due_receivers(now=clock.now())


def test_a_message_that_was_sent_but_not_stored_is_not_sent_again_by_this_process(
    store: SqlStore, clock: PassedClock, one: Instance, ops: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_values: object, **_named: object) -> bool:
        raise Unavailable("the database is away")

    one.free = 0.01
    one.look()
    with monkeypatch.context() as patch:
        patch.setattr(type(store.alerts), "finish", refuse)
        one.sender.run_once()
        assert eventually(lambda: not one.pools.busy())
    assert len(ops.sent) == 1

    clock.pass_by(minutes=5)
    one.deliver()
    assert len(ops.sent) == 1


def test_alerts_of_an_instance_that_is_gone_are_resolved_by_another(
    store: SqlStore, url: str, clock: PassedClock, ops: Mailbox
) -> None:
    gone = Instance(store, clock, "gone", ops=ops)
    gone.free = 0.01
    store.instances.heartbeat(InstanceId("gone"), host="h", version="1", detail={}, now=clock.now())
    gone.look()
    here = Instance(open_store(url), clock, "here", ops=ops)

    here.look(minutes=3)
    here.look(minutes=1)
    assert len(store.alerts.open_alerts()) == 1
    here.look(minutes=2)
    here.look(minutes=2)
    here.deliver()

    assert [text.kind for text in ops.texts] == ["opened", "resolved"]


def test_open_alerts_and_messages_are_counted(store: SqlStore, one: Instance) -> None:
    one.free = 0.01
    one.look()
    one.deliver()

    text = one.metrics.text()[0].decode()
    assert 'lakehand_alerts_open{severity="critical"} 1.0' in text
    assert 'lakehand_alert_messages_total{outcome="sent",receiver="ops"} 1.0' in text


def test_a_draining_instance_sends_nothing_new_and_another_one_does(
    store: SqlStore, clock: PassedClock, one: Instance, ops: Mailbox
) -> None:
    run(store, clock, a_table(store, clock), 1, Status.FAILED)
    one.look()
    one.sender.drain.begin(by="ann")

    one.sender.run_once()
    assert (one.sender.unfinished, list(ops.texts)) == (0, [])
    Instance(store, clock, name="two", ops=ops).deliver()

    assert len(ops.texts) == 1
