# SPDX-License-Identifier: Apache-2.0
"""The spark-submit engine with real applications: what Spark has a part in; the rest: test_spark_submit_contract."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.spi import EngineState
from lakehand.testing import ExecuteEngineContract, eventually
from tests.engines.submitted import SparkSubmitUnderTest, jvm_of
from tests.kit.class_archive import archived_class_path

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSubmitUnderTest]:
    subject = SparkSubmitUnderTest(tmp_path_factory.mktemp("engine"), archived_class_path())
    yield subject
    subject.engine.stop(timedelta())


@pytest.fixture
def subject(applications: SparkSubmitUnderTest) -> Iterator[SparkSubmitUnderTest]:
    yield applications
    applications.cancel_all()


class TestSparkSubmitEngine:
    """Of the contract: tasks are counted and canceled, leases end them, a JVM dies, a restarted service finds it."""

    test_running_work_reports_its_progress = ExecuteEngineContract.test_running_work_reports_its_progress
    test_work_stops_when_its_lease_runs_out = ExecuteEngineContract.test_work_stops_when_its_lease_runs_out
    test_a_restarted_service_finds_its_running_work_and_the_result = (
        ExecuteEngineContract.test_a_restarted_service_finds_its_running_work_and_the_result
    )
    test_after_a_crash_running_work_is_lost_and_waiting_work_needs_a_new_token = (
        ExecuteEngineContract.test_after_a_crash_running_work_is_lost_and_waiting_work_needs_a_new_token
    )

    def test_an_application_is_named_by_its_handle_and_has_the_resources_of_its_request(
        self, subject: SparkSubmitUnderTest
    ) -> None:
        work = replace(subject.work(rows=100, pause=20), queue="etl")
        asked = replace(work, parameters={**work.parameters, "resource": "spark:700m,4g", "parallelism": "3"})
        handle = subject.submit(asked)
        subject.wait_for(handle, EngineState.RUNNING)
        eventually(lambda: subject.status(handle).external_id.startswith("local-"))  # as Spark names it
        application = subject.application(handle)
        settings = (application.folder / "spark.properties").read_text()
        jvm = jvm_of(application)

        assert f"spark.app.name={handle}\n" in settings
        assert "spark.executor.memory=4096m\n" in settings
        assert "spark.cores.max=3\n" in settings
        assert "-Xmx700m" in jvm.cmdline()
        assert os.getsid(jvm.pid) == jvm.pid
        subject.wait_for(handle, EngineState.SUCCEEDED)
        eventually(lambda: not application.is_busy)
        subject.engine.tend()
        assert not (application.folder / "spark.properties").exists()

    def test_work_whose_application_cannot_start_fails_with_the_reason(self, tmp_path: Path) -> None:
        subject = SparkSubmitUnderTest(tmp_path, {"master": "nowhere"})
        handle = subject.submit(subject.work())
        status = subject.wait_for(handle, EngineState.FAILED)

        assert status.error_class == "application-died"
        assert "Master must" in subject.engine.logs(handle)
