# SPDX-License-Identifier: Apache-2.0
"""Worker pools run tasks; a call that misses its deadline is abandoned, its thread replaced, its result not used."""

import threading
import time
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest

from lakehand.core.plugins.breakers import MOST_ABANDONED, MOST_HUNG, CircuitBreaker
from lakehand.core.plugins.pools import WorkerPools, call_plugin, own_code
from lakehand.core.plugins.proxies import anything
from lakehand.domain.errors import PluginBroken, PluginStuck
from tests.core.waiting import TIMEOUT, a_while_later, eventually
from tests.kit.sentences import SECONDS, TIME, Sentences


@pytest.fixture
def pools() -> Iterator[WorkerPools]:
    made = WorkerPools(purpose="test", size=2, timeout=60.0)
    yield made
    made.close(timeout=0.0)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hangs in a test waits here, and goes on when the test is over."""
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
def plugin() -> CircuitBreaker:
    return CircuitBreaker(kind="process-factory", name="odd")


def submit_call(
    pools: WorkerPools, plugin: CircuitBreaker, work: Callable[[], Any], left: Callable[[str], None]
) -> Queue[Any]:
    """A task that calls into a plugin; what the call gave arrives in the queue. Returns when the call has begun."""
    answers: Queue[Any] = Queue()
    begun = threading.Event()

    def noted() -> Any:
        begun.set()
        return work()

    pools.submit("pool", lambda: answers.put(call_plugin(plugin, "", "trigger", anything, noted)), left)
    assert begun.wait(TIMEOUT)
    return answers


def test_what_is_submitted_is_run(pools: WorkerPools) -> None:
    done: Queue[int] = Queue()
    for n in range(50):
        pools.submit("pool", lambda n=n: done.put(n), lambda _: None)  # type: ignore[misc]
    assert sorted(done.get(timeout=TIMEOUT) for _ in range(50)) == list(range(50))
    assert eventually(lambda: not pools.busy())


def test_a_task_that_fails_ends_no_thread(pools: WorkerPools) -> None:
    done: Queue[int] = Queue()
    for n in range(10):
        pools.submit("pool", lambda: 1 / 0, lambda _: None)  # type: ignore[arg-type]
        pools.submit("pool", lambda n=n: done.put(n), lambda _: None)  # type: ignore[misc]
    assert len([done.get(timeout=TIMEOUT) for _ in range(10)]) == 10


def test_a_call_that_hangs_is_abandoned_and_others_go_on(
    pools: WorkerPools, plugin: CircuitBreaker, gate: threading.Event, sentences: Sentences
) -> None:
    left: Queue[str] = Queue()
    for _ in range(2):
        submit_call(pools, plugin, gate.wait, left.put)
    pools.abandon_overdue()
    assert left.empty()
    pools.abandon_overdue(a_while_later())
    sentences.check("a call hung", left.get(timeout=TIMEOUT), method="odd.trigger", seconds=SECONDS)
    done = threading.Event()
    pools.submit("pool", done.set, lambda _: None)
    assert done.wait(TIMEOUT)


def test_the_result_of_an_abandoned_call_is_not_used(
    pools: WorkerPools, plugin: CircuitBreaker, gate: threading.Event
) -> None:
    answers = submit_call(pools, plugin, gate.wait, lambda _: None)
    pools.abandon_overdue(a_while_later())
    assert plugin.state()[0] == "stuck"
    gate.set()
    assert eventually(lambda: not plugin._hanging)
    assert answers.empty()


def test_an_endless_loop_is_abandoned_and_replaced(
    pools: WorkerPools, plugin: CircuitBreaker, gate: threading.Event
) -> None:
    """Nothing is raised in its thread. The breaker opens, so that a second one is not started at once."""
    ended: Queue[BaseException | None] = Queue()

    def endless() -> None:
        try:
            while not gate.is_set():
                time.sleep(0)  # busy, but fair to the other threads of the test
        except BaseException as error:
            ended.put(error)
            raise
        ended.put(None)

    submit_call(pools, plugin, endless, lambda _: None)
    pools.abandon_overdue(a_while_later())
    assert len(plugin._hanging) == 1
    assert plugin.state()[0] == "stuck"  # it would only do it again
    done = threading.Event()
    pools.submit("pool", done.set, lambda _: None)
    assert done.wait(TIMEOUT)
    assert ended.empty()
    gate.set()
    assert ended.get(timeout=TIMEOUT) is None
    assert eventually(lambda: not plugin._hanging)


def test_the_threads_that_a_plugin_keeps_are_bounded(plugin: CircuitBreaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trial of a half-open breaker may hang, too: at the bound there are no more trials until a call returns."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for n in range(MOST_ABANDONED):
        plugin.allow("trigger", f"/lake/t{n}")
        plugin.abandoned(n, "trigger", 60.0, f"/lake/t{n}")
        now[0] += 10_000
    for _ in range(3):
        now[0] += 10_000
        with pytest.raises(PluginStuck):
            plugin.allow("trigger", "/lake/another")
    plugin.returned_late(0, "/lake/t0")
    plugin.allow("trigger", "/lake/another")


def test_a_late_plugin_gets_nothing_more_from_us(
    pools: WorkerPools, plugin: CircuitBreaker, gate: threading.Event
) -> None:
    reached: Queue[str] = Queue()

    def late() -> None:
        gate.wait()
        with own_code():
            reached.put("our own code")

    submit_call(pools, plugin, late, lambda _: None)
    pools.abandon_overdue(a_while_later())
    gate.set()
    assert eventually(lambda: not plugin._hanging)
    assert reached.empty()


def test_our_own_code_is_never_abandoned(pools: WorkerPools, plugin: CircuitBreaker, gate: threading.Event) -> None:
    left: Queue[str] = Queue()

    def asks_us() -> str:
        with own_code():
            gate.wait()
        return "answered"

    answers = submit_call(pools, plugin, asks_us, left.put)
    assert eventually(lambda: is_inside(pools, ""))
    pools.abandon_overdue(a_while_later())
    assert left.empty()
    gate.set()
    assert answers.get(timeout=TIMEOUT) == "answered"
    assert plugin.state() == ("on", "")


def test_the_innermost_call_is_to_blame(pools: WorkerPools, plugin: CircuitBreaker, gate: threading.Event) -> None:
    storage = CircuitBreaker(kind="table-format", name="reader")
    submit_call(pools, plugin, lambda: call_plugin(storage, "", "inspect", anything, gate.wait), lambda _: None)
    assert eventually(lambda: is_inside(pools, "inspect"))
    pools.abandon_overdue(a_while_later())
    assert (plugin.state()[0], storage.state()[0]) == ("on", "stuck")


def is_inside(pools: WorkerPools, method: str) -> bool:
    calls = [w.stack.call for w in list(pools._pools["pool"]._workers)]
    return any(call is not None and call.method == method for call in calls)


def test_closing_waits_for_no_abandoned_call(pools: WorkerPools, plugin: CircuitBreaker, gate: threading.Event) -> None:
    submit_call(pools, plugin, gate.wait, lambda _: None)
    pools.abandon_overdue(a_while_later())
    pools.close(timeout=TIMEOUT)  # returns at once: what was left does not count
    assert not pools.busy()


def test_an_open_breaker_allows_a_trial_call_after_its_pause(
    plugin: CircuitBreaker, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    plugin.abandoned("a call", "trigger", 60.0)
    with pytest.raises(PluginStuck) as stuck:
        call_plugin(plugin, "", "trigger", anything, int)
    found = {"plugin": "odd", "method": "trigger", "hung": "trigger", "seconds": 60, "at": TIME}
    sentences.check("a stuck plugin is not asked", str(stuck.value), **found)
    assert stuck.value.again.total_seconds() == 60
    now[0] += 61
    plugin.allow("trigger")  # one call tries
    with pytest.raises(PluginStuck):
        plugin.allow("trigger")
    plugin.abandoned("another call", "trigger", 60.0)
    now[0] += 100  # twice as long now
    with pytest.raises(PluginStuck):
        plugin.allow("trigger")
    now[0] += 21
    assert call_plugin(plugin, "", "trigger", anything, int) == 0
    assert plugin.state()[0] == "slow"  # two threads still hang
    assert call_plugin(plugin, "", "trigger", anything, int) == 0


def test_an_abandoned_call_that_returns_allows_a_trial_call(plugin: CircuitBreaker) -> None:
    plugin.abandoned("a call", "trigger", 60.0)
    plugin.returned_late("a call")
    assert call_plugin(plugin, "", "trigger", anything, int) == 0
    assert plugin.state() == ("on", "")


def test_a_few_tables_that_hang_do_not_make_their_format_stuck() -> None:
    reader = CircuitBreaker(kind="table-format", name="reader", tolerance=4)
    for n in range(3):
        reader.abandoned(n, "probe", 60.0)
    assert reader.state()[0] == "slow"
    call_plugin(reader, "", "probe", anything, str)
    for n in range(3, 6):
        reader.abandoned(n, "probe", 60.0)
    assert reader.state()[0] == "slow"
    reader.abandoned(7, "probe", 60.0)
    assert reader.state()[0] == "stuck"


def test_a_plugin_keeps_no_more_than_so_many_threads() -> None:
    reader = CircuitBreaker(kind="table-format", name="reader", tolerance=4)
    for n in range(MOST_HUNG):
        call_plugin(reader, "", "probe", anything, str)
        reader.abandoned(n, "probe", 60.0)
    with pytest.raises(PluginStuck):
        call_plugin(reader, "", "probe", anything, str)


def test_slow_calls_are_reported(plugin: CircuitBreaker, sentences: Sentences) -> None:
    plugin.returned("inspect", 12.0)
    assert plugin.state()[0] == "slow"
    sentences.check("a slow call", plugin.state()[1], method="inspect", seconds=12, at=TIME)


def test_an_exit_in_a_plugin_ends_nothing_of_ours(
    pools: WorkerPools, plugin: CircuitBreaker, sentences: Sentences
) -> None:
    answers: Queue[Exception] = Queue()

    def exits() -> None:
        raise SystemExit(1)

    def task() -> None:
        try:
            call_plugin(plugin, "", "trigger", anything, exits)
        except PluginBroken as error:
            answers.put(error)

    pools.submit("pool", task, lambda _: None)
    failed = str(answers.get(timeout=TIMEOUT))
    sentences.check("a call failed", failed, method="odd.trigger", error="SystemExit: 1")
