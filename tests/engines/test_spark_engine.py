# SPDX-License-Identifier: Apache-2.0
"""The spark engine, with a real driver: the contract of engines, and what is its own."""

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from lakehand.domain.operations import Handle
from lakehand.engines.spark import SparkEngine
from lakehand.spi import EngineContext, EngineState, Json
from lakehand.testing import EngineUnderTest, ExecuteEngineContract, eventually
from tests.kit.class_archive import archived_class_path

PROPERTIES = {"driver-memory": "1g", "lease-grace": "2s"}

pytestmark = pytest.mark.spark


class SparkUnderTest(EngineUnderTest):
    engine: SparkEngine

    def __init__(self, home: Path) -> None:
        self.home = home
        self.reopen()

    def reopen(self) -> None:
        self.engine = SparkEngine()
        self.engine.open({**PROPERTIES, **archived_class_path()}, EngineContext(home=self.home))

    def wake(self) -> None:
        self.engine.warm()

    def crash(self, who: str = "jvm") -> None:
        self.heartbeat_token()
        process = psutil.Process(int(self.engine.spool.driver_state()[who]))
        assert str(self.engine.spool.root) in process.cmdline(), "its number is another process's by now"
        process.kill()
        eventually(lambda: not self.engine.process.is_alive())
        self.reopen()

    def has_begun(self, progress: Mapping[str, Json]) -> bool:
        is_counting = (progress.get("phase"), progress.get("tasks_total")) == ("counting", 400)
        return is_counting and super().has_begun(progress)

    def runs(self, handle: Handle) -> int:
        return self.engine.logs(handle).count("probe on db.probe")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkUnderTest]:
    subject = SparkUnderTest(tmp_path_factory.mktemp("engine"))
    yield subject
    subject.engine.stop(timedelta(seconds=5))


@pytest.fixture
def subject(driver: SparkUnderTest) -> Iterator[SparkUnderTest]:
    yield driver
    for file in driver.engine.spool.inbox.iterdir():
        driver.engine.cancel(Handle(file.stem))


class TestSparkEngine(ExecuteEngineContract):
    def test_the_death_of_the_drivers_python_alone_ends_its_jobs(self, subject: SparkUnderTest) -> None:
        handle = subject.submit(subject.slow)
        subject.wait_for(handle, EngineState.RUNNING)
        application = eventually(lambda: subject.status(handle).external_id)
        subject.crash("pid")

        lost = subject.status(handle)
        assert (lost.state, lost.external_id) == (EngineState.LOST, application)
        assert application == subject.engine.spool.driver_state()["application"]

    def test_work_that_does_not_listen_is_ended_with_its_driver_when_its_lease_is_over(
        self, subject: SparkUnderTest
    ) -> None:
        handle = subject.submit(subject.work(deaf=600), time_to_live=timedelta(seconds=3))
        subject.wait_for(handle, EngineState.LOST)

        assert "still runs" in subject.engine.process.exit_reason()
        subject.reopen()

    def test_a_driver_stops_when_it_is_asked_and_starts_when_there_is_work(self, subject: SparkUnderTest) -> None:
        subject.heartbeat_token()
        subject.engine.stop()
        assert not subject.engine.health().is_up
        waiting = subject.submit(subject.work(), heartbeat_token="")
        eventually(lambda: subject.engine.health().is_up)

        assert subject.engine.health().restarts == 0
        assert subject.state(waiting) is EngineState.QUEUED

    def test_the_driver_inherits_nothing_from_the_service_and_is_alone_in_its_session(
        self, subject: SparkUnderTest
    ) -> None:
        subject.heartbeat_token()
        jvm = int(subject.engine.spool.driver_state()["jvm"])

        assert os.getsid(jvm) == jvm
        assert Path(f"/proc/{jvm}/fd/0").readlink() == Path("/dev/null")
        assert Path(f"/proc/{jvm}/fd/1").readlink() == subject.engine.process.log
