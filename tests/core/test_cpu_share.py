# SPDX-License-Identifier: Apache-2.0
"""While notifications come in, evaluations get a share of one processor; they never stop."""

import threading
from typing import Any

import pytest

from lakehand.core.cpu_share import LONGEST_REST, MOST, SHARE, CpuShare
from lakehand.core.loops.loop import Loop
from lakehand.core.plugins.pools import WorkerPools
from lakehand.domain.notifications import Notification
from tests.core.world import Counting, World


def busy() -> tuple[CpuShare, float]:
    share, now = CpuShare(), 1000.0
    share.note_recording(MOST, now)
    return share, now


def work() -> None:
    sum(range(300_000))


def test_nobody_rests_while_no_notifications_come_in() -> None:
    quiet, (share, now) = CpuShare(), busy()
    assert quiet.pause_after(9.0, now) == 0
    assert share.pause_after(9.0, now + 1) == 0


@pytest.mark.parametrize(("seconds", "is_busy"), [(0.01, False), (0.02, False), (0.04, True), (0.1, True)])
def test_the_intake_is_busy_by_the_share_of_time_that_it_records(seconds: float, is_busy: bool) -> None:
    share = CpuShare()
    for number in range(100):
        share.note_recording(seconds, 0.1 * number)
    assert share.is_busy(9.9) is is_busy
    assert not share.is_busy(11), "a second later it is not"


def test_used_time_is_paid_back_by_all_threads_together() -> None:
    share, now = busy()
    assert share.pause_after(0.03, now) == pytest.approx(0.03 / SHARE)
    assert share.pause_after(0.03, now) == pytest.approx(0.06 / SHARE)
    assert share.pause_after(0.0, now + 0.01) == pytest.approx(0.06 / SHARE - 0.01)


def test_a_rest_is_bounded_however_much_was_used() -> None:
    share, now = busy()
    assert [share.pause_after(60.0, now) for _ in range(3)] == [pytest.approx(LONGEST_REST)] * 3


def test_a_pool_rests_between_tasks_by_their_processor_time() -> None:
    used, ended = list[float](), threading.Event()

    def note(seconds: float) -> None:
        used.append(seconds)
        ended.set()

    pools = WorkerPools(purpose="test", size=1, timeout=60.0, rest=note)
    pools.submit("one", work, lambda _: None)
    assert ended.wait(60)
    pools.close()
    assert used[0] > 0


def test_a_loop_rests_after_a_full_step_by_its_processor_time() -> None:
    used, ended = list[float](), threading.Event()
    metrics: Any = Counting()

    def step() -> bool:
        work()
        return not used

    def note(seconds: float) -> None:
        used.append(seconds)
        ended.set()

    loop = Loop(name="test", run_once=step, pause=lambda: 60.0, metrics=metrics, rest=note)
    loop.start()
    assert ended.wait(60)
    loop.stop()
    assert len(used) == 1
    assert used[0] > 0


def test_the_time_that_the_intake_records_is_counted(world: World) -> None:
    table = world.add_table()
    before = world.intake.cpu_share._noted

    world.intake.record([Notification(source="event", location=table.location)])

    assert world.intake.cpu_share._noted > before
    assert world.intake.cpu_share._recorded > 0
