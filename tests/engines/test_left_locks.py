# SPDX-License-Identifier: Apache-2.0
"""A driver is killed in the middle of jobs on Hudi tables: the next one releases their locks, and no others, and looks
for the keys that are stray after a compaction which the dead one has committed."""

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.engines.spark import SparkEngine
from lakehand.engines.spark.command import format_properties
from lakehand.spi import EngineContext, EngineState, Finding, Json
from lakehand.spi.engines import Work
from lakehand.testing import eventually
from lakehand.testing.harness import boundary_parameter
from tests import hudi_tables as hudi
from tests import small_tables
from tests.engines.test_spark_engine import PROPERTIES, SparkUnderTest
from tests.formats.hudi.runtime import FILE_LOCK
from tests.jobs.hudi.conftest import OFF
from tests.jobs.hudi.service import LOCKING, Service
from tests.kit.class_archive import archived_class_path

pytestmark = [pytest.mark.spark, pytest.mark.long]
EXPIRY = 180  # seconds, after which writers take a lock for dead that file_lock() has made
# Jobs that take the lock by themselves, and as all of Hudi's own code takes it.
HOLDING = """
import time
from pathlib import Path
from lakehand.jobs.hudi import calls, checks, compaction, stray_keys, timelines
from lakehand.jobs.spark import jvm
from tests import hudi_tables as hudi


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


def write(job):
    path = Path(job.parameters["path"])
    for step in job.parameters["steps"]:
        hudi.upsert(job.session, path, **step)
    return {"ids": [row[0] for row in hudi.rows(job.session, path)]}


def committed(job):
    stray_keys.stray_keys = lambda *_: wait(job)
    return compaction.run(job)
"""


class HudiDriver(SparkUnderTest):
    def reopen(self) -> None:
        self.engine = SparkEngine()
        conf = {f"conf.{key}": value for key, value in format_properties(["hudi"]).items()}
        self.engine.open({**PROPERTIES, **archived_class_path(), **conf}, EngineContext(home=self.home))


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkUnderTest]:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "lakehand_holding.py").write_text(HOLDING)
    root = Path(__file__).parents[2]
    known = [tmp_path / "site", root, root / "src", os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, known)))
    subject = HudiDriver(tmp_path / "engine")
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


def test_stray_keys_are_looked_for_after_a_compaction_whose_driver_died_before_it_did(
    driver: SparkUnderTest, tmp_path: Path
) -> None:
    """The table alone says that the compaction is done; the next attempt finds the keys and compacts again."""
    path = tmp_path / "orders"
    path.mkdir()
    delete = {"hoodie.datasource.write.operation": "delete"}

    def write(number: int, rows: int, **options: str) -> list[Json]:
        step: Json = {"number": number, "rows": rows, "options": {**LOCKING, **OFF, **options}}
        parameters: dict[str, Json] = {"path": str(path), "steps": [step], "boundary": boundary_parameter(str(path))}
        work = Work(job="lakehand_holding:write", parameters=parameters, table="orders", location=str(path))
        ids = driver.run(work).result["ids"]
        assert isinstance(ids, list)
        return ids

    write(1, 8)
    write(2, 2, **delete, **hudi.scheduling_compaction(1))
    write(3, 2)
    [(planned, _)] = hudi.pending(path)
    service = Service(spark=None, path=path, properties=LOCKING)  # type: ignore[arg-type]
    process = service.admitted("compaction")
    work = Work(job="lakehand_holding:committed", parameters=process.parameters, table="orders", location=str(path))
    handle = driver.submit(work)
    eventually(lambda: "holds" in str(driver.status(handle).progress.get("notes")), 120)
    driver.crash()
    assert len(hudi.completed(path, planned)) == 1
    assert service.verdict(process, {}).finding is Finding.NOT_DONE

    again = service.admitted_again(process)
    assert again.job == "hudi.compaction"
    work = Work(job=again.job, parameters=again.parameters, table="orders", location=str(path))
    found = driver.run(work).result

    assert service.verdict(again, found).finding is Finding.DONE
    counted = found["stray_keys"]
    assert isinstance(counted, dict)
    assert (counted["found"], counted["left"], counted["why"]) == (2, 0, "")
    assert write(4, 1) == list(range(8))
    assert write(5, 2, **delete) == list(range(2, 8))
