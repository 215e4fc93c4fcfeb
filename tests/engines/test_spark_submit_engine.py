# SPDX-License-Identifier: Apache-2.0
"""The spark-submit engine, with real applications: the contract of engines, and what is its own."""

import json
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.domain.operations import Handle
from lakehand.engines.spark_submit import SparkSubmitEngine
from lakehand.engines.spark_submit.application import Application
from lakehand.spi import EngineContext, EngineState, Json
from lakehand.testing import EngineUnderTest, ExecuteEngineContract, eventually
from tests.kit.class_archive import archived_class_path

PROPERTIES = {"master": "local[2]", "driver-memory": "600m", "lease-grace": "2s", "max-applications": "3"}

pytestmark = [pytest.mark.spark, pytest.mark.long]  # thirty applications, one after the other


class SparkSubmitUnderTest(EngineUnderTest):
    engine: SparkSubmitEngine
    clock_survives_a_crash = True
    many = 4

    def __init__(self, home: Path, **properties: str) -> None:
        self.home = home
        self.properties = {
            **PROPERTIES,
            **archived_class_path(),
            **{key.replace("_", "-"): text for key, text in properties.items()},
        }
        self.reopen()

    def reopen(self) -> None:
        self.engine = SparkSubmitEngine()
        self.engine.open(self.properties, EngineContext(home=self.home))

    def crash(self) -> None:
        """Only what runs a work: an application that waits for nothing ends by itself."""
        for application in self.running():
            os.kill(int(application.spool.driver_state()["jvm"]), signal.SIGKILL)
            eventually(lambda process=application.process: not process.is_alive())  # type: ignore[misc]
        self.reopen()

    def running(self) -> list[Application]:
        return [one for one in self.engine._active() if any(one.spool.running.iterdir())]

    def application(self, handle: Handle) -> Application:
        return self.engine._find(handle)

    def has_begun(self, progress: Mapping[str, Json]) -> bool:
        is_counting = (progress.get("phase"), progress.get("tasks_total")) == ("counting", 400)
        return is_counting and super().has_begun(progress)

    def runs(self, handle: Handle) -> int:
        return self.engine.logs(handle).count("probe on db.probe")


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSubmitUnderTest]:
    subject = SparkSubmitUnderTest(tmp_path_factory.mktemp("engine"))
    yield subject
    subject.engine.stop(timedelta())


@pytest.fixture
def subject(applications: SparkSubmitUnderTest) -> Iterator[SparkSubmitUnderTest]:
    yield applications
    for application in applications.engine._active():
        applications.engine.cancel(application.handle)


class TestSparkSubmitEngine(ExecuteEngineContract):
    def test_an_application_is_named_by_its_handle_and_has_the_resources_of_its_request(
        self, subject: SparkSubmitUnderTest
    ) -> None:
        work = replace(subject.work(rows=100, pause=20), queue="etl")
        asked = replace(work, parameters={**work.parameters, "resource": "spark:700m,4g", "parallelism": "3"})
        handle = subject.submit(asked)
        subject.wait_for(handle, EngineState.RUNNING)
        application = subject.application(handle)
        settings = (application.folder / "spark.properties").read_text()
        jvm = int(application.spool.driver_state()["jvm"])

        assert f"spark.app.name={handle}\n" in settings
        assert "spark.executor.memory=4096m\n" in settings
        assert "spark.cores.max=3\n" in settings
        assert "-Xmx700m" in Path(f"/proc/{jvm}/cmdline").read_text().split("\0")
        assert os.getsid(jvm) == jvm
        subject.wait_for(handle, EngineState.SUCCEEDED)
        eventually(lambda: not application.is_busy)
        subject.engine.tend()
        assert not (application.folder / "spark.properties").exists()

    def test_work_whose_application_cannot_start_fails_with_the_reason(self, tmp_path: Path) -> None:
        subject = SparkSubmitUnderTest(tmp_path, master="nowhere")
        handle = subject.submit(subject.work())
        status = subject.wait_for(handle, EngineState.FAILED)

        assert status.error_class == "application-died"
        assert "Master must" in subject.engine.logs(handle)

    def test_a_waiting_application_that_nobody_renews_leaves_and_a_renewal_starts_it_again(
        self, tmp_path: Path
    ) -> None:
        subject = SparkSubmitUnderTest(tmp_path, wait_timeout="1s")
        handle = subject.submit(subject.work(), time_to_live=timedelta(seconds=1))
        application = subject.application(handle)
        eventually(lambda: application.spool.driver_state().get("state") == "stopped")
        eventually(lambda: not application.is_busy)

        assert subject.state(handle) is EngineState.QUEUED
        subject.renew(handle)
        subject.wait_for(handle, EngineState.SUCCEEDED)
        outcome = json.loads((application.spool.done / f"{handle}.json").read_text())
        assert outcome["state"] == "succeeded"
