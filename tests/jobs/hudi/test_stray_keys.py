# SPDX-License-Identifier: Apache-2.0
"""Keys that were deleted, and written again while a compaction plan was pending: each is one row later, or none."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import job_called
from lakehand.jobs.hudi import stray_keys
from lakehand.jobs.job import Job, JobCanceled, Record
from lakehand.spi import Finding, Scheduling
from lakehand.writer import INDEXES as INDEX_OPTIONS
from tests import hudi_tables as hudi
from tests.jobs.hudi.conftest import OFF
from tests.jobs.hudi.service import LOCKING, SERVICE, Service
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
ROWS = 8
SETTING = "hudi.compaction.stray-keys"
DELETE = {"hoodie.datasource.write.operation": "delete"}
PLAN = hudi.scheduling_compaction(1)
BY_HUDI = 2  # rows of a key that nobody has healed
INDEXES = {
    "default": {},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "global simple": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "global bloom": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
}
Write = Callable[..., None]  # number, rows and options of a commit, as ``hudi.upsert`` has them


@contextmanager
def writer(spark: SparkSession, path: Path, version: str, **options: str) -> Iterator[Write]:
    """Writes the first rows of a commit, with this Hudi."""
    own = {**LOCKING, **OFF, **options}

    def write_here(number: int, rows: int, **more: str) -> None:
        hudi.upsert(spark, path, number=number, rows=rows, options={**own, **more})

    if version == "1.2.0":
        yield write_here
        return
    with hudi.writer_elsewhere(path, f"hudi-{version}") as write:
        yield lambda number, rows, **more: write({"number": number, "rows": rows, "options": {**own, **more}})


def write_again_beside_a_plan(write: Write) -> None:
    """Keys 0 and 1 are deleted, a compaction is planned, and they are written again."""
    write(1, ROWS)
    write(2, 2, **DELETE, **PLAN)
    write(3, 2)


def ids(spark: SparkSession, path: Path) -> list[int]:
    return [row[0] for row in hudi.rows(spark, path)]


def compact(spark: SparkSession, path: Path, **properties: str) -> dict[str, Any]:
    """As the service does it; rows are the same before and after."""
    service = Service(spark=spark, path=path, properties={**LOCKING, **properties})
    process = service.admitted("compaction")
    before = hudi.rows(spark, path)
    result = service.execute(process)
    assert hudi.rows(spark, path) == before
    assert service.verdict(process, result).finding is Finding.DONE
    assert not hudi.pending(path)
    return result


@pytest.mark.parametrize(
    ("how", "version"),
    [("heal", "1.2.0"), *(pytest.param(*one, marks=pytest.mark.long) for one in (
        ("lock", "1.2.0"), ("heal", "1.1.1"), ("heal", "1.0.2"), ("heal", "0.15"),
    ))],
)  # fmt: skip
def test_a_key_that_came_back_while_a_plan_was_pending_is_one_row_after_its_next_write(
    how: str, version: str, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "orders"
    with writer(spark, path, version) as write:
        write_again_beside_a_plan(write)
        [(planned, _)] = hudi.pending(path)

        result = compact(spark, path, **{SETTING: how})

        [healing] = result["stray_keys"]["healed_by"]
        assert result["instants"] == [planned, healing]
        heartbeats = {file.name for file in (path / ".hoodie" / ".heartbeat").iterdir()}
        assert heartbeats.isdisjoint({planned, healing}), "a heartbeat would stay forever"
        assert result["stray_keys"] == {"found": 2, "left": 0, "why": "", "healed_by": [healing]}
        write(4, 1)
        assert ids(spark, path) == list(range(ROWS)), "the next write is not a second row"
        write(5, 2, **DELETE)
        assert ids(spark, path) == list(range(2, ROWS)), "the next delete is not lost"


@pytest.mark.parametrize("version", long_values("1.2.0", "1.1.1", "1.0.2", "0.15"))
def test_stray_keys_that_are_left_are_counted_and_become_what_hudi_makes_of_them(
    version: str, spark: SparkSession, tmp_path: Path
) -> None:
    """If the last lines fail with a newer Hudi, it may have been corrected there, and the guard be needless."""
    path = tmp_path / "orders"
    with writer(spark, path, version) as write:
        write_again_beside_a_plan(write)
        service = Service(spark=spark, path=path)  # which shares no lock with the writer

        result = service.execute(service.admitted("compaction"))

        assert (result["stray_keys"]["found"], result["stray_keys"]["left"]) == (2, 2)
        assert result["stray_keys"]["healed_by"] == []
        write(4, 1)
        assert ids(spark, path).count(0) == BY_HUDI
        write(5, 2, **DELETE)
        assert ids(spark, path).count(1) == 1


@pytest.mark.parametrize("version", long_values("1.2.0", "1.1.1", "1.0.2", "0.15"))
@pytest.mark.parametrize("index", [name for name in INDEXES if name != "default"])
def test_each_index_is_right_after_a_compaction_beside_writes(
    index: str, version: str, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "orders"
    with writer(spark, path, version, **INDEXES[index]) as write:
        write_again_beside_a_plan(write)

        result = compact(spark, path)

        assert ("stray_keys" in result) == (index == "bloom")
        write(4, 1)
        assert ids(spark, path) == list(range(ROWS))
        write(5, 2, **DELETE)
        assert ids(spark, path) == list(range(2, ROWS))


@pytest.mark.long
def test_a_plan_without_deletes_and_one_that_nothing_was_written_beside_cost_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "orders", stray_keys.stray_keys
    looked_at: list[Sequence[str]] = []

    def look(job: Job, location: str, partitions: Sequence[str]) -> int:
        looked_at.append(partitions)
        return real(job, location, partitions)

    monkeypatch.setattr(stray_keys, "stray_keys", look)
    by_service = Service(spark=spark, path=path, scheduling=Scheduling.SERVICE, properties={**SERVICE, **LOCKING})
    with writer(spark, path, "1.2.0") as write:
        write(1, ROWS)
        write(2, ROWS)
        by_service.serve("compaction")
        assert looked_at == []
        write(3, 2, **DELETE)
        write(4, 1)
        by_service.serve("compaction", lost=Finding.NOT_DONE)
        assert looked_at == [[]], "nothing was written since it was planned, so that no partition is read"


@pytest.mark.long
def test_a_writer_that_is_always_writing_is_left_alone_and_the_keys_are_reported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stray_keys, "QUIET_TIMEOUT", 0.5)
    monkeypatch.setattr(stray_keys, "BEGUN_TIMEOUT", 0.5)
    path = tmp_path / "orders"
    with writer(spark, path, "1.2.0") as write:
        write_again_beside_a_plan(write)
    service = Service(spark=spark, path=path, properties={**LOCKING, SETTING: "lock"})
    process = service.admitted("compaction")

    with hudi.write_under_way(path, "deltacommit"):
        result = service.execute(process)

    assert result["stray_keys"]["why"].startswith("WriterBusy")
    assert service.verdict(process, result).finding is Finding.DONE


@pytest.mark.parametrize("index", ["default", "record"])
def test_what_a_writer_has_begun_in_the_metadata_table_stays_there_beside_a_compaction(
    index: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers of Hudi 1.1 and newer begin there long before they commit, and fail if they find it rolled back."""
    monkeypatch.setattr(stray_keys, "QUIET_TIMEOUT", 0.5)
    monkeypatch.setattr(stray_keys, "BEGUN_TIMEOUT", 0.5)
    path, own = tmp_path / "orders", INDEX_OPTIONS.get(index, {})
    metadata = path / ".hoodie" / "metadata"
    with writer(spark, path, "1.2.0", **{"hoodie.metadata.enable": "true", **own}) as write:
        write_again_beside_a_plan(write)
    service = Service(spark=spark, path=path, properties={**LOCKING, **own})
    process = service.admitted("compaction")

    with hudi.write_under_way(path, "deltacommit"), hudi.write_under_way(metadata, "deltacommit") as begun:
        result = service.execute(process)
        assert (hudi.timeline(metadata) / f"{begun}.deltacommit.requested").exists()

    assert service.verdict(process, result).finding is Finding.DONE
    assert ids(spark, path) == list(range(ROWS))


@pytest.mark.long
def test_a_search_that_takes_too_long_under_the_lock_gives_it_back_and_is_done_beside_the_writers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stray_keys, "CANCEL_EVERY", 0.01)
    path = tmp_path / "orders"
    with writer(spark, path, "1.2.0") as write:
        write_again_beside_a_plan(write)
    service = Service(spark=spark, path=path, properties=LOCKING)
    process = service.admitted("compaction")

    result = service.execute(replace(process, parameters={**process.parameters, "lock_limit": 0.01}))

    assert (result["stray_keys"]["found"], result["stray_keys"]["left"]) == (2, 2)
    assert "0.01 s under the lock" in result["stray_keys"]["why"]
    assert not (path / ".hoodie" / "lock").exists()
    assert service.verdict(process, result).finding is Finding.DONE


@pytest.mark.parametrize("version", ["1.2.0", *long_values("1.1.1", "1.0.2")])
def test_no_write_begins_between_the_commit_and_the_second_compaction(
    version: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that comes when the stray keys are counted waits for the lock, and finds them in base files."""
    path, real = tmp_path / "orders", stray_keys.stray_keys
    begun: list[Future[None]] = []

    def look(job: Job, location: str, partitions: Sequence[str]) -> int:
        is_locked, found = (path / ".hoodie" / "lock").exists(), real(job, location, partitions)
        begun.append(pool.submit(write, 4, 1))
        if not is_locked:
            begun[0].result()
        return found

    monkeypatch.setattr(stray_keys, "stray_keys", look)
    with writer(spark, path, version) as write, ThreadPoolExecutor(1) as pool:
        write_again_beside_a_plan(write)
        service = Service(spark=spark, path=path, properties=LOCKING)

        result = service.execute(service.admitted("compaction"))
        begun[0].result()

        assert (result["stray_keys"]["found"], result["stray_keys"]["left"]) == (2, 0)
        assert ids(spark, path) == list(range(ROWS))


@pytest.mark.long
def test_the_files_are_written_before_the_lock_is_taken(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "orders", stray_keys.without_writes
    before: dict[Path, int] = {}

    def base_files() -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in path.glob("p*/*.parquet")}

    @contextmanager
    def without_writes(job: Job, location: str) -> Iterator[None]:
        before.update(base_files())
        with real(job, location):
            yield

    with writer(spark, path, "1.2.0") as write:
        write_again_beside_a_plan(write)
    old = set(base_files())
    service = Service(spark=spark, path=path, properties=LOCKING)
    process = service.admitted("compaction")
    monkeypatch.setattr(stray_keys, "without_writes", without_writes)
    service.execute(process)

    written = {file: time for file, time in before.items() if file not in old}
    assert len(written) == hudi.PARTITIONS
    assert written.items() <= base_files().items(), "no file is written again under the lock"


@pytest.mark.long
def test_nothing_is_committed_without_a_lease_and_the_plan_is_executed_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    class LeaseOver(Record):
        def stop_reason(self) -> str:
            return "the lease is over" if "to commit" in self.phase else ""

    path = tmp_path / "orders"
    with writer(spark, path, "1.2.0") as write:
        write_again_beside_a_plan(write)
    [(planned, _)] = hudi.pending(path)
    service = Service(spark=spark, path=path, properties=LOCKING)
    process = service.admitted("compaction")

    with pytest.raises(JobCanceled):
        job_called(process.job)(Job(spark.newSession(), dict(process.parameters), record=LeaseOver()))

    assert hudi.completed(path, planned) == []
    assert not (path / ".hoodie" / "lock").exists()
    hudi.let_heartbeats_expire(path)
    begun = {"begun": [planned]}  # as the next admission says
    result = service.execute(replace(process, parameters={**process.parameters, **begun}))
    assert (result["stray_keys"]["found"], result["stray_keys"]["left"]) == (2, 0)
    assert len(hudi.completed(path, planned)) == 1
