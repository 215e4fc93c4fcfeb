# SPDX-License-Identifier: Apache-2.0
"""A driver is killed while its jobs hold the locks of Hudi tables: the next driver releases them, and no others."""

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.spi import EngineState
from lakehand.spi.engines import Work
from lakehand.testing import eventually
from tests import small_tables
from tests.engines.test_spark_engine import SparkUnderTest
from tests.formats.hudi.runtime import FILE_LOCK
from tests.jobs.hudi.service import Service

pytestmark = [pytest.mark.spark, pytest.mark.long]
EXPIRY = 180  # seconds, after which writers take a lock for dead that file_lock() has made
# Jobs that take the lock by themselves, and as all of Hudi's own code takes it.
HOLDING = """
import time
from lakehand.jobs.hudi import calls, checks, timelines
from lakehand.jobs.spark import jvm


def enter(job):
    location = checks.enter(job)
    calls.use_options(job.session, job.parameters["options"])
    return location


def wait(job):
    job.note("holds", True)
    while True:
        job.check()
        time.sleep(0.1)


def own(job):
    with timelines.locked(job.session, enter(job)):
        wait(job)


def hudis(job):
    nobody = jvm(job.session).org.apache.hudi.common.util.Option.empty()
    with timelines.write_client(job.session, enter(job)) as client:
        client.getTransactionManager().beginStateChange(nobody, nobody)
        wait(job)


def released(job):
    with timelines.locked(job.session, enter(job)):
        pass
    wait(job)
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkUnderTest]:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "lakehand_holding.py").write_text(HOLDING)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    subject = SparkUnderTest(tmp_path / "engine")
    yield subject
    subject.engine.stop(timedelta(seconds=5))


def holding(driver: SparkUnderTest, path: Path, function: str) -> Path:
    """A job that holds the table's lock, or did; the lock's file."""
    table = small_tables.hudi(path)
    parameters = Service(spark=None, path=table, properties=FILE_LOCK).admitted("compaction").parameters  # type: ignore[arg-type]
    work = Work(job=f"lakehand_holding:{function}", parameters=parameters, table=path.name, location=str(table))
    handle = driver.submit(work)
    driver.wait_for(handle, EngineState.RUNNING)
    eventually(lambda: "holds" in str(driver.status(handle).progress.get("notes")), 120)
    return table / ".hoodie" / "lock"


def test_the_locks_of_a_killed_driver_are_released_by_the_next_one_and_no_others(
    driver: SparkUnderTest, tmp_path: Path
) -> None:
    ours = [holding(driver, tmp_path / how, how) for how in ("own", "hudis")]
    somebody_elses = holding(driver, tmp_path / "released", "released")
    assert [lock.exists() for lock in (*ours, somebody_elses)] == [True, True, False]
    somebody_elses.touch()

    driver.crash()
    began = time.monotonic()
    eventually(lambda: are_released(driver, ours), EXPIRY)

    assert time.monotonic() - began < EXPIRY / 2
    assert somebody_elses.exists()


def are_released(driver: SparkUnderTest, locks: list[Path]) -> bool:
    driver.engine.tend()
    return not any(lock.exists() for lock in locks)
