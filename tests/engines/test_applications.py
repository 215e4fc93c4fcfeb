# SPDX-License-Identifier: Apache-2.0
"""Applications of the spark-submit engine, played by a shell: who starts, who is found again, what a death means."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.domain.errors import Invalid
from lakehand.domain.operations import Handle
from lakehand.engines.spark.command import Command
from lakehand.engines.spark.spool import Document
from lakehand.engines.spark_submit import SparkSubmitEngine
from lakehand.engines.spark_submit.application import Application
from lakehand.jobs.spool import Spool
from lakehand.spi import EngineContext, EngineState, LeaseGrant, Work
from lakehand.testing import eventually

SLEEP = "sleep 600"
LONG = timedelta(minutes=10)


class PlayedEngine(SparkSubmitEngine):
    script = SLEEP

    def _command(self, application: Application, item: Document) -> Command:
        self._resources(item.get("parameters") or {}, application.handle)
        return Command(
            arguments=["/bin/sh", "-c", self.script + "; true", "driver", str(application.spool.root)],
            environment={"PATH": "/usr/bin:/bin"},
            properties={"spark.app.name": application.handle},
            properties_file=application.folder / "spark.properties",
        )

    def give(self, name: str, *, has_lease: bool = True, **parameters: str) -> Handle:
        work = Work(job="probe", parameters=parameters, table="db.t", location="/t")
        grant = LeaseGrant(heartbeat_token=self.heartbeat_token() if has_lease else None, time_to_live=LONG)
        self.submit(work, Handle(name), grant)
        return Handle(name)

    def state(self, handle: Handle) -> EngineState:
        return self.status([handle])[handle].state

    def busy(self) -> set[str]:
        """Those whose start is over: the lock that says "alive" is taken before the settings are written."""
        return {one.handle for one in self._active() if one.process.is_alive() and not one.is_starting}

    def spool_of(self, handle: Handle) -> Spool:
        """The application's side."""
        return Spool(self._find(handle).spool.root)

    def kill(self, handle: Handle) -> None:
        """More than once if need be: a process that was born this instant has no command line to be known by."""
        process = self._find(handle).process

        def is_dead() -> bool:
            process.kill()
            return not process.is_alive()

        eventually(is_dead)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[PlayedEngine]:
    engine = opened(tmp_path)
    yield engine
    for application in engine._active():
        engine.kill(application.handle)


def opened(home: Path) -> PlayedEngine:
    engine = PlayedEngine()
    engine.open({"max-applications": "2"}, EngineContext(home=home))
    return engine


def test_no_more_run_at_once_than_the_settings_allow_and_the_oldest_goes_first(engine: PlayedEngine) -> None:
    handles = [engine.give(name) for name in ("c", "b", "a")]
    eventually(lambda: engine.busy() >= {"c", "b"})
    engine.tend()
    assert not engine._find(handles[2]).is_busy
    assert engine.state(handles[2]) is EngineState.QUEUED

    engine.cancel(handles[0])
    engine.kill(handles[0])
    engine.tend()
    eventually(lambda: engine.busy() == {"b", "a"})


def test_a_size_that_cannot_be_read_stops_neither_its_application_nor_another(engine: PlayedEngine) -> None:
    handles = {engine.give("a", resource="lots"), engine.give("b", resource="4g:4g")}

    eventually(lambda: engine.busy() >= handles)


def test_work_without_a_lease_starts_with_its_first_renewal(engine: PlayedEngine) -> None:
    handle = engine.give("a", has_lease=False)
    engine.tend()
    assert engine.busy() == set()

    engine.renew([handle], LeaseGrant(heartbeat_token=engine.heartbeat_token(), time_to_live=LONG))
    eventually(lambda: engine.busy() == {"a"})
    eventually(lambda: engine.spool_of(handle).take_renewals())


def test_an_application_that_dies_before_it_begins_is_a_failed_attempt_and_is_not_started_again(
    engine: PlayedEngine,
) -> None:
    engine.script = "echo out of memory; exit 0"
    handle = engine.give("a")
    eventually(lambda: engine.state(handle) is EngineState.FAILED)
    status = engine.status([handle])[handle]
    engine.tend()

    assert (status.error_class, "out of memory" in status.message) == ("application-died", True)
    assert engine.busy() == set()
    assert "out of memory" in engine.logs(handle)


def test_an_application_that_dies_later_is_lost_whatever_its_exit_code(engine: PlayedEngine) -> None:
    handle = engine.give("a")
    eventually(lambda: engine.busy() == {"a"})
    engine.spool_of(handle).accept(handle)
    assert engine.state(handle) is EngineState.RUNNING

    engine.kill(handle)
    assert engine.state(handle) is EngineState.LOST


def test_one_that_left_because_nobody_renewed_starts_again(engine: PlayedEngine) -> None:
    engine.script = """echo '{"state": "stopped"}' > $1/driver.json"""
    handle = engine.give("a")
    eventually(engine._find(handle).spool.driver_state)
    eventually(lambda: not engine._find(handle).is_busy)
    assert engine.state(handle) is EngineState.QUEUED

    engine.script = SLEEP
    engine.tend()
    eventually(lambda: engine.busy() == {"a"})


def test_an_engine_that_is_opened_again_finds_what_runs_and_what_is_over(engine: PlayedEngine, tmp_path: Path) -> None:
    running, over = engine.give("a"), engine.give("b")
    eventually(lambda: engine.busy() == {"a", "b"})
    engine.spool_of(over).accept(over)
    engine.spool_of(over).finish(over, {"state": "succeeded", "result": {"rows": 7}})
    engine.kill(over)

    again = opened(tmp_path)
    assert again.busy() == {"a"}
    assert again.state(running) is EngineState.QUEUED
    assert again.status([over])[over].result == {"rows": 7}
    again.give("a")
    assert again.busy() == {"a"}


def test_settings_and_scratch_are_removed_when_the_process_is_gone_and_logs_are_kept(engine: PlayedEngine) -> None:
    handle = engine.give("a")
    eventually(lambda: engine.busy() == {"a"})
    folder = engine._find(handle).folder
    (folder / "scratch").mkdir()
    assert (folder / "spark.properties").stat().st_mode & 0o077 == 0
    engine.cancel(handle)
    engine.tend()
    assert (folder / "scratch").exists()

    engine.kill(handle)
    engine.tend()
    assert not (folder / "scratch").exists()
    assert not (folder / "spark.properties").exists()
    assert (folder / "logs" / "driver.log").exists()


def test_folders_of_old_applications_are_removed_and_never_one_that_waits(
    engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, waiting = engine.give("a"), engine.give("b", has_lease=False)
    eventually(lambda: engine.busy() == {"a"})
    engine.cancel(over)
    engine.kill(over)
    later = time.time() + timedelta(days=15).total_seconds()
    monkeypatch.setattr("lakehand.engines.spark_submit.engine.time", FakeTime(later))
    engine.tend()

    assert engine.state(over) is EngineState.ABSENT
    assert engine.state(waiting) is EngineState.QUEUED


class FakeTime:
    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


def test_stopping_the_engine_ends_all(engine: PlayedEngine) -> None:
    engine.give("a")
    eventually(lambda: engine.busy() == {"a"})
    engine.stop(timedelta())
    assert engine.busy() == set()


@pytest.mark.parametrize("name", ["../a", "a/b", ""])
def test_a_handle_that_is_no_plain_word_is_refused(engine: PlayedEngine, name: str) -> None:
    with pytest.raises(Invalid):
        engine.give(name)
