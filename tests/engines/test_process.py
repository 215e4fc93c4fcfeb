# SPDX-License-Identifier: Apache-2.0
"""The driver's process, played by a shell: who lives, who may start, and what happens after a death."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lakehand.engines.spark.command import Command
from lakehand.engines.spark.process import DriverProcess, HeartbeatTimer, Launcher
from lakehand.engines.spark.spool import SpoolClient
from lakehand.testing import eventually

SLEEP = "sleep 600"


@pytest.fixture
def spool(tmp_path: Path) -> SpoolClient:
    spool = SpoolClient(tmp_path / "spool")
    spool.make()
    return spool


@pytest.fixture
def process(spool: SpoolClient) -> Iterator[DriverProcess]:
    process = DriverProcess(spool, spool.root.parent)
    yield process
    end(process)


def end(process: DriverProcess) -> None:
    """More than once if need be: a process that was born this instant has no command line to be known by."""

    def is_dead() -> bool:
        process.kill()
        return not process.is_alive()

    eventually(is_dead)


def script(spool: SpoolClient, text: str = SLEEP) -> Command:
    return Command(
        arguments=["/bin/sh", "-c", text + "; true", "driver", str(spool.root)],
        environment={"PATH": "/usr/bin:/bin"},
        properties={"spark.x": "y"},
        properties_file=spool.root.parent / "spark.properties",
    )


def test_a_driver_lives_until_the_last_of_its_processes_is_dead(spool: SpoolClient, process: DriverProcess) -> None:
    assert not process.is_alive()
    process.start(script(spool, f"sh -c '{SLEEP}; true' child $1 & exit 0"))
    eventually(lambda: not psutil.pid_exists(int(spool.lock.read_text())))

    assert process.is_alive()


def test_a_second_driver_is_not_started(spool: SpoolClient, process: DriverProcess) -> None:
    assert process.start(script(spool))
    assert not process.start(script(spool))
    assert not DriverProcess(spool, spool.root.parent).start(script(spool))


def test_none_can_start_while_someone_relies_on_its_death(spool: SpoolClient, process: DriverProcess) -> None:
    other = DriverProcess(spool, spool.root.parent)
    with process.probe() as is_alive:
        assert not is_alive
        assert not other.start(script(spool))

    assert other.start(script(spool))


def test_a_new_driver_is_never_seen_with_the_state_of_the_last_one(
    spool: SpoolClient, process: DriverProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.state.write_text('{"boot": "last", "beat": 7, "state": "up"}')
    prepare, seen = process._prepare, []

    def look_and_prepare(command: Command) -> None:
        seen.append((process.is_alive(), spool.driver_state()))
        prepare(command)

    monkeypatch.setattr(process, "_prepare", look_and_prepare)
    process.start(script(spool))

    assert seen == [(True, {})]


def test_another_service_process_can_end_it(spool: SpoolClient, process: DriverProcess) -> None:
    process.start(script(spool))
    end(DriverProcess(spool, spool.root.parent))

    assert not process.is_alive()


def test_a_number_that_now_means_another_process_is_left_alone(spool: SpoolClient, process: DriverProcess) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        spool.lock.write_text(str(stranger.pid))
        process.kill()

        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("text", ["", "1", "0", "-1", "nonsense"])
def test_a_number_that_means_many_processes_is_never_signalled(
    spool: SpoolClient, process: DriverProcess, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.killpg", lambda *_: pytest.fail("a signal was sent"))
    monkeypatch.setattr("lakehand.engines.spark.process.command_lines", lambda _: [[str(spool.root)]])
    spool.lock.write_text(text)
    process.kill()
    spool.lock.write_text("")


def test_a_process_that_has_no_command_line_yet_is_asked_again(
    spool: SpoolClient, process: DriverProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel gives it one a moment after whoever started it goes on."""
    said = iter([[[]], [[]], [[str(spool.root)]]])
    killed: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr("os.killpg", lambda group, _: killed.append(group))
        patched.setattr("lakehand.engines.spark.process.command_lines", lambda _: next(said))
        spool.lock.write_text("4711")
        process.kill()
    assert killed == [4711]
    spool.lock.write_text("")


def test_settings_are_for_our_eyes_only(spool: SpoolClient, process: DriverProcess) -> None:
    process.start(script(spool))
    file = spool.root.parent / "spark.properties"

    assert file.read_text() == "spark.x=y\n"
    assert file.stat().st_mode & 0o077 == 0


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_after_each_death_a_driver_is_started_later_and_later(spool: SpoolClient, process: DriverProcess) -> None:
    time = Time()
    launcher = Launcher(process, lambda: script(spool, "echo out of luck"), time)
    waits, backing_off = [], []
    for _ in range(3):
        launcher.request_start()
        launcher.wait(10)
        eventually(lambda: not process.is_alive())
        launcher.observe(False, {})
        waits.append(launcher._not_before - time.now)
        backing_off.append(launcher.is_backing_off)
        time.now = launcher._not_before

    assert waits == [1.0, 2.0, 4.0]
    assert backing_off == [False, False, True]
    assert not launcher.is_backing_off
    assert launcher.restarts == 2
    assert "out of luck" in launcher.error


def test_a_driver_that_cannot_even_be_prepared_is_a_failure_with_its_reason(process: DriverProcess) -> None:
    def no_java() -> Command:
        raise RuntimeError("no Java here")

    launcher = Launcher(process, no_java, Time())
    launcher.request_start()
    launcher.wait(10)

    assert (launcher.failures, launcher.error) == (1, "RuntimeError: no Java here")


def test_a_driver_that_stopped_by_itself_did_not_fail(spool: SpoolClient, process: DriverProcess) -> None:
    launcher = Launcher(process, lambda: script(spool, "exit 0"), Time())
    launcher.request_start()
    launcher.wait(10)
    eventually(lambda: not process.is_alive())
    launcher.observe(False, {"state": "stopped"})

    assert launcher.failures == 0


def test_a_long_life_makes_earlier_deaths_forgotten(process: DriverProcess) -> None:
    time = Time()
    launcher = Launcher(process, lambda: pytest.fail("not asked for"), time)
    launcher.failures = 2
    launcher.observe(True, {"boot": "b"})
    time.now += 61
    launcher.observe(True, {"boot": "b"})

    assert launcher.failures == 0


def test_silence_is_counted_while_a_driver_lives_and_its_beat_stands_still() -> None:
    time = Time()
    timer = HeartbeatTimer(time)
    heard = []
    for is_alive, beat in ((True, 1), (True, 1), (True, 2), (True, 2), (False, 2)):
        heard.append(timer.silence(is_alive, {"boot": "b", "beat": beat}))
        time.now += 10

    assert heard == [0.0, 10.0, 0.0, 10.0, 0.0]
