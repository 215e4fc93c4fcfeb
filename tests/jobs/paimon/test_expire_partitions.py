# SPDX-License-Identifier: Apache-2.0
"""Partitions of real tables past their age: exactly those that were announced go, and a writer always wins."""

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job
from lakehand.jobs.paimon import expire_partitions
from lakehand.jobs.paimon.expire_partitions import PartitionsChanged
from lakehand.spi import Finding, Operation, Skip, TableProcess
from lakehand.testing.harness import PluginHarness
from tests import paimon_tables as paimon
from tests.formats.paimon.handmade import partition_of
from tests.jobs.paimon.conftest import Make
from tests.jobs.paimon.service import disturbed, harness, killed
from tests.kit.tiers import long_values
from tests.paimon_tables import Lake

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
ACTION = "expire-partitions"


@pytest.fixture
def lake(lake_with: Make) -> Lake:
    return lake_with("days")


def serviced(spark: SparkSession, lake: Lake, name: str = "days", **more: str) -> PluginHarness:
    return harness(spark, lake.path(name), expire_partitions__older_than="30d", **more)


def admitted(service: PluginHarness) -> Operation:
    wanted = service.wants(ACTION)
    assert isinstance(wanted, TableProcess), wanted
    return service.admitted(service.stored(wanted))


def ids(lake: Lake, name: str = "days") -> list[int]:
    return sorted(row[0] for row in lake.sql(f"SELECT id FROM {{shop}}.{name}"))


def last(lake: Lake, name: str = "days") -> tuple[int, str, str]:
    newest = paimon.snapshots(lake.path(name))[-1]
    return newest["id"], newest["commitKind"], newest["commitUser"]


def insert(lake: Lake, id: int, day: str, name: str = "days") -> None:
    lake.sql(f"INSERT INTO {{shop}}.{name} VALUES ({id}, 0, '{day}', 'late')")


YOUNG = [5, 6, 7, 105]


def test_old_partitions_go_all_others_stay_and_it_rests(spark: SparkSession, lake: Lake) -> None:
    service = serviced(spark, lake)
    dry = service.admitted(service.asked(ACTION, dry_run=True))
    listed = service.execute(dry)
    assert len(ids(lake)) == 9, "a dry run drops nothing"
    assert listed["would_delete_files"] == len(listed["would_delete"]) == 5
    expected = [("p=2024-01-01", 2, 2), ("p=2024-01-02", 2, 2), ("p=2024-01-03", 1, 1)]
    assert [tuple(one.values()) for one in listed["would_expire"]] == expected
    assert service.verdict(dry, listed).numbers["changed"] is False

    ended = service.finish(operation := admitted(service))

    assert ended.reason == "snapshot 3: 3 partitions with 5 rows in 5 files are dropped"
    assert ids(lake) == YOUNG
    assert last(lake) == (3, "OVERWRITE", f"lakehand-{operation.tag}_partitions")
    assert isinstance(rest := service.wants(ACTION), Skip)
    assert rest.reason.startswith("0 of 3 partitions are older than 30d; 2 have values that name no time")
    files = {name.rpartition("/")[2] for name in listed["would_delete"]}
    assert files <= {file.name for file in lake.path("days").rglob("*.parquet")}, "until their snapshots expire"
    assert paimon.facts(spark, lake.path("days"), **{"scan.snapshot-id": "2"})[0] == 9


def test_a_driver_that_dies_before_the_commit_has_done_nothing(spark: SparkSession, lake: Lake) -> None:
    service = serviced(spark, lake)
    operation = admitted(service)

    killed(spark, operation, "committing")
    assert (service.verdict(operation, {}).finding, len(ids(lake))) == (Finding.NOT_DONE, 9)
    service.finish(operation)

    assert (ids(lake), last(lake)[0]) == (YOUNG, 3)


def test_a_driver_that_dies_right_after_the_commit_is_not_repeated(spark: SparkSession, lake: Lake) -> None:
    service = serviced(spark, lake)
    operation = admitted(service)

    killed(spark, operation, "committed")
    assert service.verdict(operation, {}).finding is Finding.DONE
    insert(lake, 900, "2024-01-01")  # late rows of a writer are not dropped by the attempt that follows
    again = service.admitted(operation)

    assert service.execute(again)["already_done"] is True
    assert (ids(lake), last(lake)[0]) == ([*YOUNG, 900], 4)


def test_a_writer_of_other_partitions_commits_beside_us(spark: SparkSession, lake: Lake) -> None:
    """It takes the next snapshot just before we do: we take the one after."""
    service = serviced(spark, lake)
    operation = admitted(service)

    result = disturbed(spark, operation, "committing", lambda: insert(lake, 900, "2099-01-01"))

    assert result["snapshots"] == [4]
    assert service.settled(operation, result).result["dropped_rows"] == 5
    assert ids(lake) == [*YOUNG, 900]


@pytest.mark.parametrize("write", ["append", *long_values("compaction")])
def test_a_writer_of_an_announced_partition_wins_and_we_plan_anew(spark: SparkSession, lake: Lake, write: str) -> None:
    service = serviced(spark, lake)
    operation = admitted(service)
    compact = (
        "CALL lake.sys.compact(table => 'shop.days', options => 'compaction.min.file-num=2,compaction.max.file-num=2')"
    )
    act = (lambda: insert(lake, 900, "2024-01-01")) if write == "append" else (lambda: lake.sql(compact))

    with pytest.raises(PartitionsChanged) as caught:
        disturbed(spark, operation, "committing", act)

    failure = service.failure(operation, caught.value)
    assert (failure.reason, failure.delay is not None) == ("write-conflict", True)
    assert {1, 2, 3, 101, 102} < set(ids(lake)), "nothing was dropped"
    rows = 6 if write == "append" else 5
    assert service.finish(operation).result["dropped_rows"] == rows, "what is announced the next time"
    assert ids(lake) == YOUNG


@pytest.mark.long
def test_a_table_with_a_key_drops_what_finds_buckets_and_deleted_rows_too(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path)
    for name, options in {
        "keyed": {"primary-key": "id,p"},
        "vectors": {"primary-key": "id,p", "bucket": "1", "deletion-vectors.enabled": "true", "write-only": "false"},
    }.items():
        lake.create(name, options, partitioned=True)
        for number in (1, 2):
            insert(lake, number, "2024-01-01", name)
            insert(lake, number, "2099-01-01", name)
        lake.sql(f"DELETE FROM {{shop}}.{name} WHERE id = 2")
        service = serviced(spark, lake, name)

        service.serve(ACTION)

        assert [row[0] for row in lake.sql(f"SELECT p FROM {{shop}}.{name}")] == ["2099-01-01"]
        newest = service.format.inspect(service.runtime().reference)
        left: Any = newest.manifests.records(newest.newest["indexManifest"])  # type: ignore[attr-defined]
        assert {one["_PARTITION"] for one in left} == {partition_of("2099-01-01")}
        insert(lake, 1, "2024-01-01", name)  # the partition can be written again
        assert len(ids(lake, name)) == 2


@pytest.mark.long
def test_whole_numbers_and_several_columns_make_a_time(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path)
    own = {"expiration-time": "9 d", "timestamp-formatter": "yyyyMMdd HH", "timestamp-pattern": "$day $hour"}
    options = ", ".join(f"'partition.{key}'='{value}'" for key, value in own.items())
    lake.sql(
        f"CREATE TABLE {{shop}}.h (id int, day int, hour string) PARTITIONED BY (day, hour) TBLPROPERTIES ({options})"
    )
    lake.sql("INSERT INTO {shop}.h VALUES (1, 20240101, '07'), (2, 20240101, '7'), (3, 20990101, '07')")
    service = harness(spark, lake.path("h"))

    assert "day=20240101/hour=07 to drop" in service.serve(ACTION).process.reason

    assert ids(lake, "h") == [2, 3]


@pytest.mark.long
def test_by_update_time_old_files_go_whatever_the_value_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job compares with the time that Paimon itself has for the youngest file."""
    lake = Lake(spark, tmp_path)
    path = lake.create("u", {"partition.expiration-strategy": "update-time", "partition.expiration-time": "7 d",
                             "partition.timestamp-formatter": "yyyy-MM-dd"}, partitioned=True)  # fmt: skip
    insert(lake, 1, "2024-01-01", "u")
    service = harness(spark, path)
    assert isinstance(service.wants(ACTION), Skip)
    operation = service.admitted(service.asked(ACTION))
    operation.process.parameters["partitions"] = [  # type: ignore[index]
        {"key": partition_of("2024-01-01").hex(), "name": "p=2024-01-01", "files": 1, "rows": 1}
    ]

    with pytest.raises(Exception, match="Paimon itself would keep the partition p=2024-01-01/") as caught:
        service.execute(operation)

    assert service.failure(operation, caught.value).reason == "refused"
    assert ids(lake, "u") == [1]
    monkeypatch.setattr(expire_partitions, "ZONES", 9 * 86_400_000)  # as if the file were older
    assert service.settled(operation, service.execute(operation)).result["dropped_rows"] == 1
    assert ids(lake, "u") == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "young": ({"cutoff": int(time.time() * 1000)}, "168 h"),
    "no time": ({"cutoff": None}, "milliseconds"),
    "no partitions": ({"partitions": None}, "does not say which partitions"),
    "another partition": (
        {"partitions": [{"key": partition_of("other").hex(), "name": "p=other", "files": 1, "rows": 1}]},
        "Paimon itself would keep the partition p=other/",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_job_refuses_parameters_below_the_floor(spark: SparkSession, lake: Lake, case: str) -> None:
    wrong, why = WRONG[case]
    service = serviced(spark, lake)
    operation = admitted(service)

    with pytest.raises(Exception, match=why) as caught:
        job_called("paimon.expire_partitions")(Job(spark.newSession(), {**operation.process.parameters, **wrong}))

    assert service.failure(operation, caught.value).reason == "refused"
    assert (last(lake)[0], len(ids(lake))) == (2, 9)
