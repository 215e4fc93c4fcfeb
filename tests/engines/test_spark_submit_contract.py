# SPDX-License-Identifier: Apache-2.0
"""The spark-submit engine under the contract of engines, with applications whose Spark is played: ``played_spark``."""

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.engines.spark.command import Command, driver_command
from lakehand.engines.spark.java import Java
from lakehand.engines.spark.spool import Document
from lakehand.engines.spark_submit import SparkSubmitEngine
from lakehand.engines.spark_submit.application import Application
from lakehand.spi import EngineState
from lakehand.testing import ExecuteEngineContract, eventually
from tests.engines import played_spark
from tests.engines.submitted import SparkSubmitUnderTest

NO_JAVA = Java(home=Path("/no-java"), version=17, origin="none")
SECOND = timedelta(seconds=1)


class PlayedEngine(SparkSubmitEngine):
    def _command(self, application: Application, item: Document) -> Command:
        real = driver_command(
            self.settings.spark, home=application.folder, spool=application.spool.root, spark_home=Path("/no-spark"),
            java=NO_JAVA, is_once=True,
        )  # fmt: skip
        return Command(
            arguments=[sys.executable, played_spark.__file__, *real.arguments[1:]], environment=real.environment,
            properties=real.properties, properties_file=real.properties_file,
        )  # fmt: skip


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSubmitUnderTest]:
    subject = SparkSubmitUnderTest(tmp_path_factory.mktemp("engine"), make=PlayedEngine)
    yield subject
    subject.engine.stop(timedelta())


@pytest.fixture
def subject(applications: SparkSubmitUnderTest) -> Iterator[SparkSubmitUnderTest]:
    yield applications
    applications.cancel_all()


class TestSparkSubmitEngine(ExecuteEngineContract):
    """All that needs no table: Spark's own part is in test_spark_submit_engine."""


def test_a_waiting_application_that_nobody_renews_leaves_and_a_renewal_starts_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(played_spark.STARTS_WITH, str(tmp_path / "go"))
    subject = SparkSubmitUnderTest(tmp_path, {"wait-timeout": "1s"}, PlayedEngine)
    handle = subject.submit(subject.work(), heartbeat_token="")
    application = subject.application(handle)

    def is_started() -> bool:
        if not application.is_busy:
            subject.renew(handle, SECOND)
        return application.process.is_alive()

    eventually(is_started)
    eventually(lambda: not application.may_start)  # its lease is over
    (tmp_path / "go").touch()
    eventually(lambda: application.spool.driver_state().get("state") == "stopped")
    eventually(lambda: not application.is_busy)

    assert subject.state(handle) is EngineState.QUEUED
    subject.renew(handle)
    subject.wait_for(handle, EngineState.SUCCEEDED)
    outcome = json.loads((application.spool.done / f"{handle}.json").read_text())
    assert outcome["state"] == "succeeded"
