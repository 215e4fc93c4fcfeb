# SPDX-License-Identifier: Apache-2.0
"""Lanes do what they are given; a call that hangs is left, its thread is replaced, and its answer is not used."""

import threading
import time
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest

from lakehand.core.answers import anything
from lakehand.core.health import MOST_HUNG, PluginHealth
from lakehand.core.lanes import Lanes
from lakehand.core.seats import at_home, called
from lakehand.domain.errors import PluginBroken, PluginStuck
from tests.core.waiting import PATIENCE, a_while_later, eventually


@pytest.fixture
def lanes() -> Iterator[Lanes]:
    made = Lanes(purpose="test", width=2, patience=60.0)
    yield made
    made.close(patience=0.0)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hangs in a test waits here, and goes on when the test is over."""
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
def plugin() -> PluginHealth:
    return PluginHealth(kind="process-factory", name="odd")


def post_call(lanes: Lanes, plugin: PluginHealth, work: Callable[[], Any], left: Callable[[str], None]) -> Queue[Any]:
    """A task that calls into a plugin; what the call gave arrives in the queue. Returns when the call has begun."""
    answers: Queue[Any] = Queue()
    begun = threading.Event()

    def noted() -> Any:
        begun.set()
        return work()

    lanes.post("lane", lambda: answers.put(called(plugin, "trigger", anything, noted)), left)
    assert begun.wait(PATIENCE)
    return answers


def test_what_is_posted_is_done(lanes: Lanes) -> None:
    done: Queue[int] = Queue()
    for n in range(50):
        lanes.post("lane", lambda n=n: done.put(n), lambda _: None)  # type: ignore[misc]
    assert sorted(done.get(timeout=PATIENCE) for _ in range(50)) == list(range(50))
    assert eventually(lambda: not lanes.busy())


def test_a_task_that_fails_ends_no_thread(lanes: Lanes) -> None:
    done: Queue[int] = Queue()
    for n in range(10):
        lanes.post("lane", lambda: 1 / 0, lambda _: None)  # type: ignore[arg-type]
        lanes.post("lane", lambda n=n: done.put(n), lambda _: None)  # type: ignore[misc]
    assert len([done.get(timeout=PATIENCE) for _ in range(10)]) == 10


def test_a_call_that_hangs_is_left_and_others_go_on(lanes: Lanes, plugin: PluginHealth, gate: threading.Event) -> None:
    left: Queue[str] = Queue()
    for _ in range(2):
        post_call(lanes, plugin, gate.wait, left.put)
    lanes.check()
    assert left.empty()
    lanes.check(a_while_later())
    assert "odd.trigger had not come back" in left.get(timeout=PATIENCE)
    done = threading.Event()
    lanes.post("lane", done.set, lambda _: None)
    assert done.wait(PATIENCE)


def test_the_answer_of_a_call_that_was_left_is_not_used(
    lanes: Lanes, plugin: PluginHealth, gate: threading.Event
) -> None:
    answers = post_call(lanes, plugin, gate.wait, lambda _: None)
    lanes.check(a_while_later())
    assert plugin.state()[0] == "stuck"
    gate.set()
    assert eventually(lambda: not plugin._hung)
    assert answers.empty()


def test_an_endless_loop_is_stopped(lanes: Lanes, plugin: PluginHealth) -> None:
    """Otherwise it would take its share of Python's time from everyone, for ever."""

    def endless() -> None:
        while True:
            try:
                time.monotonic()
            except Exception:
                continue

    post_call(lanes, plugin, endless, lambda _: None)
    lanes.check(a_while_later())
    assert eventually(lambda: not plugin._hung)
    assert plugin.state()[0] == "stuck"  # it would only do it again


def test_our_own_code_is_not_blamed_and_never_stopped(
    lanes: Lanes, plugin: PluginHealth, gate: threading.Event
) -> None:
    left: Queue[str] = Queue()

    def asks_us() -> str:
        with at_home():
            gate.wait()
        return "answered"

    answers = post_call(lanes, plugin, asks_us, left.put)
    assert eventually(lambda: is_inside(lanes, ""))
    lanes.check(a_while_later())
    assert left.empty()
    gate.set()
    assert answers.get(timeout=PATIENCE) == "answered"
    assert plugin.state() == ("on", "")


def test_the_innermost_call_is_to_blame(lanes: Lanes, plugin: PluginHealth, gate: threading.Event) -> None:
    storage = PluginHealth(kind="table-format", name="reader")
    post_call(lanes, plugin, lambda: called(storage, "inspect", anything, gate.wait), lambda _: None)
    assert eventually(lambda: is_inside(lanes, "inspect"))
    lanes.check(a_while_later())
    assert (plugin.state()[0], storage.state()[0]) == ("on", "stuck")


def is_inside(lanes: Lanes, method: str) -> bool:
    calls = [w.seat.call for w in list(lanes._lanes["lane"]._workers)]
    return any(call is not None and call.method == method for call in calls)


def test_closing_waits_for_nobody_who_hangs(lanes: Lanes, plugin: PluginHealth, gate: threading.Event) -> None:
    post_call(lanes, plugin, gate.wait, lambda _: None)
    lanes.check(a_while_later())
    lanes.close(patience=PATIENCE)  # returns at once: what was left does not count
    assert not lanes.busy()


def test_a_stuck_plugin_is_not_called_until_it_was_left_alone_for_a_while(
    plugin: PluginHealth, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    plugin.has_hung("a call", "trigger", 60.0)
    with pytest.raises(PluginStuck, match="odd is not asked to trigger: trigger had not come back after 60 s") as stuck:
        called(plugin, "trigger", anything, int)
    assert stuck.value.again.total_seconds() == 60
    now[0] += 61
    plugin.admit("trigger")  # one call tries
    with pytest.raises(PluginStuck):
        plugin.admit("trigger")
    plugin.has_hung("another call", "trigger", 60.0)
    now[0] += 100  # twice as long now
    with pytest.raises(PluginStuck):
        plugin.admit("trigger")
    now[0] += 21
    assert called(plugin, "trigger", anything, int) == 0
    assert plugin.state()[0] == "slow"  # two threads still hang
    assert called(plugin, "trigger", anything, int) == 0


def test_a_call_that_came_back_by_itself_makes_it_worth_trying(plugin: PluginHealth) -> None:
    plugin.has_hung("a call", "trigger", 60.0)
    plugin.came_back("a call", is_stopped=False)
    assert called(plugin, "trigger", anything, int) == 0
    assert plugin.state() == ("on", "")


def test_a_few_tables_that_hang_do_not_make_their_format_stuck() -> None:
    reader = PluginHealth(kind="table-format", name="reader", tolerance=4)
    for n in range(3):
        reader.has_hung(n, "probe", 60.0)
    assert reader.state()[0] == "slow"
    called(reader, "probe", anything, str)
    for n in range(3, 6):
        reader.has_hung(n, "probe", 60.0)
    assert reader.state()[0] == "slow"
    reader.has_hung(7, "probe", 60.0)
    assert reader.state()[0] == "stuck"


def test_a_plugin_keeps_no_more_than_so_many_threads() -> None:
    reader = PluginHealth(kind="table-format", name="reader", tolerance=4)
    for n in range(MOST_HUNG):
        called(reader, "probe", anything, str)
        reader.has_hung(n, "probe", 60.0)
    with pytest.raises(PluginStuck):
        called(reader, "probe", anything, str)


def test_slow_calls_are_spoken_of(plugin: PluginHealth) -> None:
    plugin.answered("inspect", 12.0)
    assert plugin.state()[0] == "slow"
    assert "inspect took 12 s at" in plugin.state()[1]


def test_an_exit_in_a_plugin_ends_nothing_of_ours(lanes: Lanes, plugin: PluginHealth) -> None:
    answers: Queue[Exception] = Queue()

    def exits() -> None:
        raise SystemExit(1)

    def task() -> None:
        try:
            called(plugin, "trigger", anything, exits)
        except PluginBroken as error:
            answers.put(error)

    lanes.post("lane", task, lambda _: None)
    assert "odd.trigger failed: SystemExit: 1" in str(answers.get(timeout=PATIENCE))
