# SPDX-License-Identifier: Apache-2.0
"""Iceberg tables that name what is not theirs: paths in metadata, settings that write elsewhere, changes in the middle.

After each attack everything outside of the table is as it was. What is refused, and however it is spelled, is shown
without Spark: ``test_iceberg_guards.py``. All rewrites are one function, and so are all statistics: one is tried.
Attacks that do not exist: foreign paths for remove-orphans, which deletes what it lists below the table and commits
nothing; tables below for what lists no folder.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.iceberg import outside, reachable
from lakehand.jobs.job import Job
from lakehand.jobs.paths import canonical
from tests import iceberg_tables as iceberg
from tests.attacks.real_tables import RealTable
from tests.attacks.scene import fingerprint
from tests.jobs.iceberg.service import execute, given, opened
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
REWRITES = ("rewrite-data", "rewrite-position-deletes", "rewrite-manifests")
STATISTICS = ("compute-statistics", "compute-partition-statistics")
ACTIONS = (*REWRITES, *STATISTICS, "expire-snapshots", "remove-orphans")


class Lake:
    """A table, and beside it a file of somebody else that looks just like one of its own."""

    def __init__(self, real: RealTable) -> None:
        self.real, self.table, self.others = real, real.path, real.outside
        self.warehouse = iceberg.open_warehouse(real.spark, real.path.parent)

    def add(self, *paths: str) -> list[Any]:
        """Commit data files by name, as ``add_files`` and hostile writers do."""
        table = opened(self.warehouse, self.table)
        added, append = [self.data_file(table, path) for path in paths], table.newAppend()
        for one in added:
            append.appendFile(one)
        append.commit()
        return added

    def data_file(self, table: Any, path: str) -> Any:
        java: Any = self.real.spark.sparkContext._jvm
        builder = java.org.apache.iceberg.DataFiles.builder(table.spec()).withPath(path).withFormat("parquet")
        size = (self.others / "victim.parquet").stat().st_size
        return builder.withFileSizeInBytes(size).withRecordCount(5).withPartitionPath("p=p0").build()

    def forget(self, added: list[Any]) -> None:
        """Remove them from the table again: only old snapshots name them now."""
        self.remove(added)
        iceberg.age(self.table, 10)

    def remove(self, added: list[Any]) -> None:
        delete = opened(self.warehouse, self.table).newDelete()
        for one in added:
            delete.deleteFile(one)
        delete.commit()

    def foreign(self) -> list[str]:
        return [path.format(others=self.others, table=self.table) for path in FOREIGN.values()]

    def set(self, **properties: str) -> None:
        document = iceberg.metadata(self.table)
        named = {key.replace("__", "-").replace("_", "."): value for key, value in properties.items()}
        iceberg.edit(self.table, {**document, "properties": {**document["properties"], **named}})

    def log_metadata(self, file: str) -> None:
        """As an older metadata file, which the next commit deletes."""
        self.edit(**{"metadata-log": [{"timestamp-ms": 1, "metadata-file": file}]})
        self.set(write_metadata_delete__after__commit_enabled="true", write_metadata_previous__versions__max="1")

    def edit(self, **changed: Any) -> None:
        iceberg.edit(self.table, {**iceberg.metadata(self.table), **changed})


@pytest.fixture
def lake(real_table: Callable[[str], RealTable]) -> Iterator[Lake]:
    """The table as it was made; afterwards whatever is outside of it must be as it was before."""
    real = real_table("iceberg")
    real.put_back()
    before = fingerprint(real.outside)
    yield Lake(real)
    assert fingerprint(real.outside) == before


FOREIGN = {
    "absolute": "{others}/victim.parquet",
    "with scheme": "file:{others}/victim.parquet",
    "climbing": "{table}/data/../../../outside/victim.parquet",
    "next door": "{table}2/data/victim.parquet",
    "relative": "victim.parquet",
    "other bucket": "s3://secret{table}/data/victim.parquet",
}


@pytest.mark.parametrize("action", ["rewrite-data", *long_values(*REWRITES[1:], *STATISTICS)])
def test_a_rewrite_reads_no_file_that_is_not_the_tables_however_it_is_spelled(action: str, lake: Lake) -> None:
    first = iceberg.snapshot_ids(lake.table)[0]
    lake.add(*lake.foreign())
    for kind in ("statistics", "partition-statistics"):
        lake.edit(**{kind: [statistics(first, f"{lake.others}/{kind}.stats")]})

    why = lake.real.stopped(lake.real.admitted(action))

    assert "not ours to rewrite: " in why
    for path in (*lake.foreign(), f"{lake.others}/statistics.stats", f"{lake.others}/partition-statistics.stats"):
        assert path in why


def test_spark_tells_own_files_from_others_as_the_boundary_does(lake: Lake) -> None:
    """By one rule for all spellings, whatever a snapshot names."""
    own = [f"{lake.table}/data/a.parquet", f"file:{lake.table}//b.parquet", f"FILE://{lake.table}/c", "/extra/d"]
    job = Job(lake.warehouse.session, given(lake.table))
    job.parameters["boundary"]["extra"] = ["/extra"]
    below = f"{lake.table}/inner"
    named = reachable.texts(lake.warehouse.session, [*own, *lake.foreign(), f"{below}/data/e", f"{below}2/f"])

    table = opened(lake.warehouse, lake.table)
    found = {row.path for row in named.where(outside.is_inside(job, table, (below,))).collect()}

    assert found == {*own, f"{below}2/f"}
    assert not any(job.boundary.holds(path) for path in lake.foreign() if path != "victim.parquet")


def test_expiry_leaves_and_reports_every_foreign_file_that_it_would_delete(lake: Lake) -> None:
    lake.forget(lake.add(*lake.foreign()))
    first = iceberg.snapshot_ids(lake.table)[0]
    lake.edit(statistics=[statistics(first, f"{lake.others}/victim.parquet#")])
    service, rows = lake.real.harness(), lake.warehouse.checksum(lake.table)

    dry = service.finish(service.asked("expire-snapshots", dry_run=True))
    done = service.finish(service.asked("expire-snapshots"))

    count = len(FOREIGN) - 1 + 1  # two spell the same file; and the statistics
    assert (dry.result["left_outside"], done.result["left_outside"]) == (count, count)
    assert f"{lake.others}/victim.parquet" in str(done.result["left_outside_files"])
    for reason in (dry.reason, done.reason):
        assert f"; {count} files were left, for instance " in reason
        assert "extra-locations" in reason
    assert not any("victim" in str(path) for path in dry.result["would_delete"])  # type: ignore[union-attr]
    assert done.result["deleted_files"] == dry.result["would_delete_files"] != 0
    assert lake.warehouse.checksum(lake.table) == rows


def statistics(snapshot: int, path: str) -> dict[str, Any]:
    sizes = {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
    return {"snapshot-id": snapshot, "statistics-path": path, "blob-metadata": [], **sizes}


def test_statistics_read_no_file_that_only_an_older_snapshot_names(lake: Lake) -> None:
    """The snapshot that was admitted is read, not the one that is current by then."""
    added = lake.add(str(lake.others / "victim.parquet"))
    operation = lake.real.admitted("compute-statistics")
    said = lake.real.stopped(operation, "reading", lambda: lake.remove(added))
    assert "not ours to rewrite: " in said
    assert "victim" in said


@pytest.mark.long
def test_expiry_deletes_below_a_folder_that_an_operator_named(lake: Lake) -> None:
    own = lake.table.with_name("more files")
    own.mkdir()
    shutil.copy2(lake.others / "victim.parquet", own / "a.parquet")
    lake.forget(lake.add(str(own / "a.parquet")))

    done = lake.real.harness(extra_locations=str(own)).serve("expire-snapshots")

    assert "left_outside" not in done.result
    assert not (own / "a.parquet").exists()


# What a real job reads from Iceberg's own library before it commits; each with what it says.
READ: Mapping[str, tuple[Callable[[Lake], object], str]] = {
    "another folder for new files": (
        lambda lake: lake.set(write_data_path=str(lake.others)),
        "new data would be written to {others}/, outside of {table}",
    ),
    "another folder for new files, by hashes": (
        lambda lake: lake.set(write_data_path="s3://secret/t/data", write_object__storage_enabled="true"),
        "new data would be written to s3://secret/t/data/",
    ),
    "old metadata elsewhere, which a commit deletes": (
        lambda lake: lake.log_metadata(f"{lake.others}/victim.parquet"),
        "delete-after-commit.enabled would delete files outside of {table}",
    ),
    "a class": (
        lambda lake: lake.set(write_location__provider_impl="com.example.Evil"),
        "write.location-provider.impl names a class, com.example.Evil",
    ),
    "the same path in another bucket": (
        lambda lake: lake.edit(location=f"s3://secret{lake.table}"),
        "the table is at s3://secret{table} now, and the work was for {table}",
    ),
    "another identity": (
        lambda lake: lake.edit(**{"table-uuid": "11111111-2222-3333-4444-555555555555"}),
        "another table is at {table} now: it is 11111111-2222-3333-4444-555555555555",
    ),
}


@pytest.mark.parametrize("attack", READ)
def test_what_iceberg_says_of_a_table_stops_the_job_before_it_commits(attack: str, lake: Lake) -> None:
    act, said = READ[attack]
    operation = lake.real.admitted("rewrite-data")
    act(lake)
    assert said.format(others=lake.others, table=lake.table) in lake.real.stopped(operation)


# The last step before each function that commits or deletes: what happens there is seen right after it.
STEPS = {
    "rewrite-data": "rewriting",
    "compute-statistics": "computing",
    "compute-partition-statistics": "setting",
    "expire-snapshots": "expiring",
    "remove-orphans": "deleting",
}


@pytest.mark.parametrize("action", STEPS)
def test_a_link_that_is_made_in_the_middle_stops_the_job(action: str, lake: Lake) -> None:
    link = lake.table / "data" / "more"
    said = lake.real.stopped(lake.real.admitted(action), STEPS[action], lambda: link.symlink_to(lake.others))
    assert f"{link} is a link to {lake.others}" in said


@pytest.mark.parametrize(
    "action", ["rewrite-data", *long_values(*(action for action in STEPS if "data" not in action))]
)
def test_another_table_that_comes_in_the_middle_stops_the_job(action: str, lake: Lake) -> None:
    said = lake.real.stopped(lake.real.admitted(action), STEPS[action], lambda: READ["another identity"][0](lake))
    assert f"another table is at {lake.table} now" in said


def test_a_folder_that_becomes_a_link_after_the_expiry_leads_no_deletion_out(lake: Lake) -> None:
    """The worst moment: between the commit and the deletion."""
    data, theirs = put_their_data(lake)
    with pytest.raises(OutsideTable, match=f"{data} is a link to {theirs}"):
        expire(lake, finding=lambda: swap(data, theirs))


@pytest.mark.long
def test_a_folder_that_becomes_a_link_between_two_deletions_leads_none_out(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, theirs = put_their_data(lake)
    monkeypatch.setattr(outside, "BATCH", 1)
    with pytest.raises(OutsideTable, match=r"names 1 files outside .* not ours to delete"):
        expire(lake, deleted=lambda: swap(data, theirs))


def put_their_data(lake: Lake) -> tuple[Path, Path]:
    """Old snapshots alone need the data files there are, and others have files of the same names."""
    name = lake.warehouse.name(lake.table)
    lake.warehouse.sql(f"INSERT OVERWRITE {name} SELECT id, 'p9', v, note FROM {name} WHERE id < 2")
    lake.warehouse.delete(lake.table, "p <> 'p9'")
    iceberg.age(lake.table, 10)
    data, theirs = lake.table / "data", lake.table.with_name("their data")
    shutil.copytree(data, theirs)
    return data, theirs


def swap(data: Path, theirs: Path) -> None:
    data.rename(data.with_name("moved"))
    data.symlink_to(theirs)


def expire(lake: Lake, **hooks: Callable[[], object]) -> None:
    """With hooks; whatever comes of it, the data of others stays."""
    service, theirs = lake.real.harness(), lake.table.with_name("their data")
    before = fingerprint(theirs)
    try:
        execute(service, service.admitted(service.asked("expire-snapshots")), None, **hooks)
    finally:
        assert fingerprint(theirs) == before


@pytest.mark.long
def test_expiry_leaves_the_files_of_a_table_that_lies_below(lake: Lake) -> None:
    theirs = lake.table / "inner" / "data" / "live.parquet"
    theirs.parent.mkdir(parents=True)
    shutil.copy2(lake.others / "victim.parquet", theirs)
    (lake.table / "inner" / "_delta_log").mkdir()
    (lake.table / "inner" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    lake.forget(lake.add(str(theirs)))

    done = lake.real.harness().serve("expire-snapshots")

    assert (done.result["left_outside"], theirs.exists()) == (1, True)


@pytest.mark.long
def test_own_branches_and_tags_are_no_other_tables(lake: Lake) -> None:
    name, first = lake.warehouse.name(lake.table), iceberg.snapshot_ids(lake.table)[0]
    lake.warehouse.sql(f"ALTER TABLE {name} CREATE BRANCH side AS OF VERSION {first}")
    lake.warehouse.sql(f"ALTER TABLE {name} CREATE TAG kept AS OF VERSION {first}")
    service, rows = lake.real.harness(), lake.warehouse.checksum(lake.table)

    for action in ACTIONS:
        service.finish(service.asked(action))

    assert lake.warehouse.checksum(lake.table) == rows
    assert lake.warehouse.sql(f"SELECT count(*) FROM {name}.branch_side")[0][0] == 10


PATHS = [
    *FOREIGN.values(), "S3A://b//x/y", "s3n://b/x", "FILE:///x", "file://host/x//y", "abfss://c@a/x", "hdfs:///x",
    "/x/../y", "s3:/x", "s3://b", "wasbs://c@a//x", "gs://b/x",
]  # fmt: skip


def test_spark_spells_paths_as_the_boundary_does(spark: SparkSession) -> None:
    rows = reachable.texts(spark, PATHS).select("path", outside.spelled("path").alias("spelled")).collect()
    assert {row.path: row.spelled for row in rows} == {path: canonical(path) for path in PATHS}


def test_markers_are_listed_through_the_tables_own_file_access(lake: Lake) -> None:
    (lake.table / ".hoodie").mkdir()
    (lake.table / ".hoodie" / "hoodie.properties").write_text("")
    io = opened(lake.warehouse, lake.table).io()

    found = set(outside.list_prefix(io, f"{lake.table}/"))

    assert {".hoodie/hoodie.properties", "metadata/version-hint.text"} <= found
