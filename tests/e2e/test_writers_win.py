# SPDX-License-Identifier: Apache-2.0
"""Writers beside clusterings whose driver is killed: no statement fails, no row is lost, and clustering is done."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.writer import file_lock
from tests import hudi_client
from tests.e2e import clusterings
from tests.e2e.conftest import Start
from tests.e2e.writers import KINDS, Writer, facts, live_writer, lock_folders
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = [
    pytest.mark.spark,
    # Three minutes on two cores: three writers, each of which meets a killed driver.
    pytest.mark.skipif(not os.environ.get("LAKEHAND_TEST_WRITERS"), reason="LAKEHAND_TEST_WRITERS=1 runs it"),
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Hudi before 1.0 does not count commits"),
]
QUICK = {"lease": "12", "lease_margin": "3", "retry__first_delay": "1"}
ENDED_WELL = ("succeeded", "dropped")
EAGER = {
    "hudi.clustering.commits": "2",
    "hudi.clustering.order-columns": "ts",
    "hudi.clean.commits": "4",
    "hudi.clean.retain-commits": "4",
    "hoodie.client.heartbeat.interval_in_ms": "5000",  # Hudi takes a runner for dead after twice that
}


class Rounds:
    """One table, its writer, and what became of each statement."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.number = 0

    def write(self, times: int) -> None:
        for _ in range(times):
            self.number += 1
            assert self.writer.write(self.number) is None

    def kill_in_the_middle(self, service: RunningService, table: int) -> str:
        """A clustering that was quicker than the kill is followed by another."""
        for _ in range(10):
            if instant := clusterings.kill_in_the_middle(service, self.writer.path, table):
                return instant
            self.write(2)
        raise AssertionError(f"every clustering of {self.writer.path.name} was quicker than the kill")


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Path:
    return hudi_client.require(request.config)


def test_three_writers_win_against_clusterings_whose_driver_is_killed(
    spark: SparkSession, lake: Path, client: Path, start_service: Start
) -> None:
    service = start_service(**QUICK, **lock_folders(lake / "locks"))
    with ExitStack() as writers:
        rounds = [
            Rounds(writers.enter_context(live_writer(kind, spark, lake / kind, service.url, lake / "locks" / kind)))
            for kind in KINDS
        ]
        for each in rounds:
            meet_a_killed_clustering(service, each, lake / "locks" / each.writer.path.name)
        for each in rounds:
            wait_done(each.writer.path)
            each.write(1)
            assert facts(spark, each.writer) == each.writer.expected(each.number)


def meet_a_killed_clustering(service: RunningService, rounds: Rounds, lock: Path) -> None:
    """The plan waits in the table with nobody to run it; the writer updates its files; the plan is given up."""
    path = rounds.writer.path
    rounds.write(2)
    table = clusterings.register(service, path, {**EAGER, **file_lock(str(lock))})
    killed = rounds.kill_in_the_middle(service, table)
    rounds.write(2)
    assert clusterings.is_pending(path, killed)
    service.post(f"/api/v1/tables/{table}/resume")
    wait_for(lambda: is_reported(service, path, killed), f"clustering {killed} of {path.name} to be given up")
    assert not clusterings.is_pending(path, killed)


def wait_done(path: Path) -> None:
    wait_for(lambda: clusterings.done(path), f"a clustering of {path.name} to be done")


def is_reported(service: RunningService, path: Path, instant: str) -> bool:
    """Whether an operation has ended well and says that this plan was rolled back."""
    ended = [o for o in service.operations(location=str(path), action="clustering") if o["status"] in ENDED_WELL]
    return any(instant in o["reason"] and "rolled back" in o["reason"] for o in ended)
