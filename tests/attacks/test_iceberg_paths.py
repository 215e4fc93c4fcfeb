# SPDX-License-Identifier: Apache-2.0
"""Iceberg tables that name what is not theirs: paths in metadata, settings that write elsewhere, changes in the middle.

After each attack everything outside of the table is as it was, and so are the table's rows.
"""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.iceberg import outside, reachable
from lakehand.jobs.paths import canonical
from lakehand.testing.harness import PluginHarness
from tests import iceberg_tables as iceberg
from tests.attacks.scene import fingerprint
from tests.jobs.iceberg.service import execute, harness, opened
from tests.kit.interruptions import Hook

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
REWRITES = ("rewrite-data", "rewrite-position-deletes", "rewrite-manifests")
STATISTICS = ("compute-statistics", "compute-partition-statistics")
READS = (*REWRITES, *STATISTICS)
COMMITS = (*READS, "expire-snapshots")
ACTIONS = (*COMMITS, "remove-orphans")

# Attacks that do not exist for an action, and why.
ABSENT = {
    ("remove-orphans", "foreign path in the metadata"): "it deletes what it lists below the table, never what is named",
    ("remove-orphans", "setting that writes elsewhere"): "it writes no file and makes no commit",
    ("remove-orphans", "foreign entry in the metadata log"): "it makes no commit, and only commits delete these",
    ("rewrite-data", "nested table"): "it lists no folder; files of a nested table would have to be named",
    ("rewrite-position-deletes", "nested table"): "as rewrite-data",
    ("rewrite-manifests", "nested table"): "as rewrite-data",
    ("compute-statistics", "nested table"): "as rewrite-data",
    ("compute-partition-statistics", "nested table"): "as rewrite-data",
}  # fmt: skip


class Lake:
    """One warehouse with a table, and a folder beside it with what others own."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.warehouse = iceberg.open_warehouse(spark, folder / "lake")
        self.table, self.others = folder / "lake" / "t", folder / "others"
        self.copy = folder / "template"
        self.make()

    def make(self) -> None:
        """Small files, deletes, old snapshots; a file of somebody else that looks just like one of ours."""
        self.warehouse.create(self.table)
        for number in range(4):
            self.warehouse.append(self.table, start=number * 10)
        self.warehouse.delete(self.table, "id % 10 = 3")
        iceberg.age(self.table, 10)
        shutil.copytree(self.table, self.copy)
        self.others.mkdir()
        shutil.copy2(self.own_file(), self.others / "victim.parquet")

    def own_file(self) -> Path:
        return min(f for f in iceberg.data_files(self.table) if f.parent.name == "p=p0" and "deletes" not in f.name)

    def put_back(self) -> "Lake":
        iceberg.restore(self.copy, self.table)
        return self

    def service(self, **properties: str) -> PluginHarness:
        return harness(self.spark, self.table, {k.replace("_", "-"): v for k, v in properties.items()})

    def add(self, *paths: str) -> list[Any]:
        """Commit data files by name, as ``add_files`` and hostile writers do."""
        table = opened(self.warehouse, self.table)
        added, append = [self.data_file(table, path) for path in paths], table.newAppend()
        for one in added:
            append.appendFile(one)
        append.commit()
        return added

    def data_file(self, table: Any, path: str) -> Any:
        java: Any = self.spark.sparkContext._jvm
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

    def outside(self) -> dict[str, str]:
        """Everything that is not the table's."""
        return fingerprint(self.folder, but=self.table)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(spark, tmp_path_factory.mktemp("attacks"))


@pytest.fixture
def lake(made: Lake) -> Iterator[Lake]:
    """The table as it was made; afterwards whatever is outside of it must be as it was before."""
    lake = made.put_back()
    before = lake.outside()
    yield lake
    assert lake.outside() == before


def refused(lake: Lake, action: str, match: str, hooks: Mapping[str, Hook] | None = None) -> str:
    """The action stops with this reason, and the table is as it was, apart from what a hook does to it."""
    service = lake.service()
    operation, before = service.admitted(service.asked(action)), fingerprint(lake.table)
    with pytest.raises(OutsideTable, match=match) as stopped:
        execute(service, operation, None, **(hooks or {}))
    if not hooks:
        assert fingerprint(lake.table) == before
    return str(stopped.value)


FOREIGN = {
    "absolute": "{others}/victim.parquet",
    "with scheme": "file:{others}/victim.parquet",
    "climbing": "{table}/data/../../../others/victim.parquet",
    "next door": "{table}2/data/victim.parquet",
    "relative": "victim.parquet",
    "other bucket": "s3://secret{table}/data/victim.parquet",
}


@pytest.mark.parametrize("action", READS)
def test_a_rewrite_reads_no_file_that_is_not_the_tables_however_it_is_spelled(action: str, lake: Lake) -> None:
    lake.add(*lake.foreign())

    why = refused(lake, action, r"not ours to rewrite: .*extra-locations")

    assert all(path in why for path in lake.foreign()), why


def test_expiry_leaves_and_reports_every_foreign_file_that_it_would_delete(lake: Lake) -> None:
    lake.forget(lake.add(*lake.foreign()))
    document = iceberg.metadata(lake.table)
    first = iceberg.snapshot_ids(lake.table)[0]
    document["statistics"] = [statistics(first, f"{lake.others}/victim.parquet#")]
    iceberg.edit(lake.table, document)
    service, rows = lake.service(), lake.warehouse.checksum(lake.table)

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
    refused(lake, "compute-statistics", "not ours to rewrite: .*victim", {"reading": lambda: lake.remove(added)})


def test_expiry_deletes_below_a_folder_that_an_operator_named(lake: Lake) -> None:
    own = lake.folder / "lake" / "more files"
    own.mkdir()
    shutil.copy2(lake.others / "victim.parquet", own / "a.parquet")
    lake.forget(lake.add(str(own / "a.parquet")))

    done = lake.service(extra_locations=str(own)).serve("expire-snapshots")

    assert "left_outside" not in done.result
    assert not (own / "a.parquet").exists()
    shutil.rmtree(own)


@pytest.mark.parametrize("kind", ["statistics", "partition-statistics"])
@pytest.mark.parametrize("action", READS)
def test_statistics_elsewhere_stop_a_rewrite_and_new_statistics(action: str, kind: str, lake: Lake) -> None:
    document = iceberg.metadata(lake.table)
    first = iceberg.snapshot_ids(lake.table)[0]
    iceberg.edit(lake.table, {**document, kind: [statistics(first, f"{lake.others}/x.stats")]})
    refused(lake, action, r"not ours to rewrite: .*/others/x\.stats")


@pytest.mark.parametrize("action", COMMITS)
def test_a_commit_deletes_no_file_that_the_metadata_log_names_elsewhere(action: str, lake: Lake) -> None:
    document = iceberg.metadata(lake.table)
    document["metadata-log"][0]["metadata-file"] = f"{lake.others}/victim.parquet"
    iceberg.edit(lake.table, document)
    lake.set(write_metadata_delete__after__commit_enabled="true", write_metadata_previous__versions__max="1")

    refused(lake, action, r"delete-after-commit.* would delete files outside .*/others/victim\.parquet")


@pytest.mark.parametrize("action", REWRITES)
def test_new_files_are_written_nowhere_else(action: str, lake: Lake) -> None:
    lake.set(write_data_path=str(lake.others))
    refused(lake, action, f"new data would be written to {lake.others}/, outside of {lake.table}.*extra-locations")


@pytest.mark.parametrize("path", ["data", "s3://secret/t/data", "{table}/../others"])
def test_new_files_are_written_nowhere_else_however_it_is_spelled(path: str, lake: Lake) -> None:
    lake.set(write_data_path=path.format(table=lake.table), write_object__storage_enabled="true")
    refused(lake, "rewrite-data", "new data would be written to")


@pytest.mark.parametrize("action", ACTIONS)
def test_no_class_is_loaded_that_a_table_names(action: str, lake: Lake) -> None:
    lake.set(write_location__provider_impl="com.example.Evil")
    refused(lake, action, r"write\.location-provider\.impl names a class, com\.example\.Evil")


PHASES = dict.fromkeys(REWRITES, "rewriting") | dict.fromkeys(STATISTICS, "computing")
PHASES |= {"expire-snapshots": "expiring", "remove-orphans": "deleting"}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_link_that_is_made_in_the_middle_stops_the_job(action: str, lake: Lake) -> None:
    link, snapshots = lake.table / "data" / "more", iceberg.snapshot_ids(lake.table)
    before = set(iceberg.data_files(lake.table))

    refused(lake, action, f"{link} is a link to {lake.others}", {PHASES[action]: lambda: link.symlink_to(lake.others)})

    assert iceberg.snapshot_ids(lake.table) == snapshots
    assert set(iceberg.data_files(lake.table)) == before


@pytest.mark.parametrize("action", ACTIONS)
def test_another_table_at_the_location_stops_the_job_at_its_start_and_in_the_middle(action: str, lake: Lake) -> None:
    other = "11111111-2222-3333-4444-555555555555"

    def swap() -> None:
        iceberg.edit(lake.table, {**iceberg.metadata(lake.table), "table-uuid": other})

    refused(lake, action, f"another table is at {lake.table} now: it is {other}", {PHASES[action]: swap})
    lake.put_back()
    refused(lake, action, f"another table is at {lake.table} now: it is {other}", {"reading": swap})


@pytest.mark.parametrize("action", ACTIONS)
def test_the_same_path_in_another_bucket_is_another_table(action: str, lake: Lake) -> None:
    iceberg.edit(lake.table, {**iceberg.metadata(lake.table), "location": f"s3://secret{lake.table}"})
    refused(lake, action, f"the table is at s3://secret{lake.table} now, and the work was for {lake.table}")


def test_a_folder_that_becomes_a_link_after_the_expiry_leads_no_deletion_out(lake: Lake) -> None:
    """The worst moment: between the commit and the deletion, and between two batches of it."""
    data, theirs = lake.table / "data", lake.folder / "their data"
    shutil.copytree(data, theirs)
    before = fingerprint(theirs)
    moved = lake.table / "moved"

    def swap() -> None:
        data.rename(moved)
        data.symlink_to(theirs)

    replace_all(lake)
    refused(lake, "expire-snapshots", f"{data} is a link to {theirs}", {"finding": swap})

    lake.put_back()
    replace_all(lake)
    whole, outside.BATCH = outside.BATCH, 1
    try:
        refused(lake, "expire-snapshots", "names 1 files outside .* not ours to delete", {"deleted": swap})
    finally:
        outside.BATCH = whole
    assert fingerprint(theirs) == before
    shutil.rmtree(theirs)


def replace_all(lake: Lake) -> None:
    """So that old snapshots alone need the data files there are."""
    name = lake.warehouse.name(lake.table)
    lake.warehouse.sql(f"INSERT OVERWRITE {name} SELECT id, 'p9', v, note FROM {name} WHERE id < 2")
    lake.warehouse.delete(lake.table, "p <> 'p9'")
    iceberg.age(lake.table, 10)


def test_expiry_leaves_the_files_of_a_table_that_lies_below(lake: Lake) -> None:
    theirs = lake.table / "inner" / "data" / "live.parquet"
    theirs.parent.mkdir(parents=True)
    shutil.copy2(lake.others / "victim.parquet", theirs)
    (lake.table / "inner" / "_delta_log").mkdir()
    (lake.table / "inner" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    lake.forget(lake.add(str(theirs)))

    done = lake.service().serve("expire-snapshots")

    assert (done.result["left_outside"], theirs.exists()) == (1, True)


@pytest.mark.long
def test_own_branches_and_tags_are_no_other_tables(lake: Lake) -> None:
    name, first = lake.warehouse.name(lake.table), iceberg.snapshot_ids(lake.table)[0]
    lake.warehouse.sql(f"ALTER TABLE {name} CREATE BRANCH side AS OF VERSION {first}")
    lake.warehouse.sql(f"ALTER TABLE {name} CREATE TAG kept AS OF VERSION {first}")
    service, rows = lake.service(), lake.warehouse.checksum(lake.table)

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
