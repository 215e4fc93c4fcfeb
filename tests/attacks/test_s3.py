# SPDX-License-Identifier: Apache-2.0
"""The attacks that exist on an object store, on a real S3 server: tables below, and files of another bucket.

Links, and folders that are swapped, do not exist there. A table is admitted on local disk and then put into the bucket:
what its job may touch is drawn for the bucket. One job of each format is tried for each guard; that the others meet the
same guards is shown without a server, in ``test_every_job.py``.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.spi import Operation
from lakehand.testing.harness import boundary_parameter
from tests import s3_server
from tests.attacks.attacks import MARKERS
from tests.attacks.hudi_plans import INSTANT, avro, clean_plan
from tests.attacks.real_tables import RealTable
from tests.s3_server import Server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
LAKE, SECRET = "lake", "secret"
FOREIGN: dict[str, Any] = {
    "path": f"s3a://{SECRET}/db/t/a.parquet", "size": 15, "partitionValues": {}, "modificationTime": 0,
    "dataChange": True,
}  # fmt: skip
IN_PROCESS = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
# Those that list folders. Iceberg's tables name their files by whole paths: one that is put into a bucket is none any
# more, see below.
LISTING = {"hudi": "compaction", "delta": "vacuum", "paimon": "remove-orphans", "lance": "clean-versions"}


@pytest.fixture(scope="session")
def running_server(spark: SparkSession) -> Iterator[Server]:
    """One for the whole life of the JVM, which remembers where a bucket is."""
    with s3_server.s3_server() as server:
        server.make_bucket(LAKE)
        server.make_bucket(SECRET)
        server.put(SECRET, "db/t/a.parquet", b"somebody else's")
        server.introduce(spark)
        yield server


@pytest.fixture
def s3(running_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name, value in running_server.environment().items():
        monkeypatch.setenv(name, value)
    return running_server


class Uploaded:
    """A table of the test's own in the bucket, with an operation that was admitted for it."""

    def __init__(self, s3: Server, real: RealTable, action: str) -> None:
        real.put_back()
        self.s3, self.real, self.prefix = s3, real, f"db/{real.format}-{uuid4().hex[:8]}"
        self.location = f"s3a://{LAKE}/{self.prefix}"
        self.operation = moved(real.admitted(action), self.location)
        s3.put_folder(real.path, LAKE, self.prefix)

    def run(self, **more: Any) -> None:
        process = self.operation.process
        self.real.run(replace(self.operation, process=replace(process, parameters={**process.parameters, **more})))

    def stopped(self) -> str:
        before = self.s3.everything()
        with pytest.raises(OutsideTable) as caught:
            self.run()
        assert self.s3.everything() == before
        return str(caught.value)

    @contextmanager
    def having(self, name: str, content: bytes) -> Iterator[None]:
        """One more object of the table, for as long as the attack lasts."""
        self.s3.put(LAKE, f"{self.prefix}/{name}", content)
        try:
            yield
        finally:
            self.s3.remove(LAKE, f"{self.prefix}/{name}")


def moved(operation: Operation, location: str) -> Operation:
    given = dict(operation.process.parameters)
    options = given.get("options")
    if isinstance(options, Mapping):  # a lock in files is none on an object store
        given["options"] = {**options, "hoodie.write.lock.provider": IN_PROCESS}
    boundary = boundary_parameter(location, warehouses=[f"s3://{LAKE}"])
    process = replace(operation.process, parameters={**given, "location": location, "boundary": boundary})
    return replace(operation, process=process)


@pytest.fixture
def upload(s3: Server, real_table: Callable[[str], RealTable]) -> Callable[[str, str], Uploaded]:
    return lambda of, action: Uploaded(s3, real_table(of), action)


Upload = Callable[[str, str], Uploaded]


@pytest.mark.parametrize("format", LISTING)
def test_a_table_below_one_in_a_bucket_is_named_and_left_alone(upload: Upload, format: str) -> None:
    table = upload(format, LISTING[format])
    with table.having(f"inner/{MARKERS['hudi']}", b"somebody else's"):
        assert f"a hudi table lies below this one, at {table.location}/inner " in table.stopped()


def test_a_delta_log_that_names_a_file_of_another_bucket_is_not_followed(upload: Upload) -> None:
    table = upload("delta", "optimize")
    with committed(table, {"add": FOREIGN}):
        assert FOREIGN["path"] in table.stopped()


def test_a_vacuum_leaves_a_removed_file_of_another_bucket(s3: Server, upload: Upload) -> None:
    table = upload("delta", "vacuum")
    before = s3.keys(SECRET)
    with committed(table, {"remove": {**FOREIGN, "deletionTimestamp": 0}}):
        for mode in ("lite", "full"):
            table.run(mode=mode, confirm=True)
    assert s3.keys(SECRET) == before


def committed(table: Uploaded, action: dict[str, Any]) -> AbstractContextManager[None]:
    """One more commit in the table's log."""
    version = len([key for key in table.s3.keys(LAKE, f"{table.prefix}/_delta_log/") if key.endswith(".json")])
    return table.having(f"_delta_log/{version:020}.json", json.dumps(action).encode())


def test_a_paimon_option_that_moves_the_data_to_another_bucket_is_named_and_not_obeyed(
    s3: Server, upload: Upload
) -> None:
    table = upload("paimon", "compact")
    document = json.loads(s3.get(LAKE, f"{table.prefix}/schema/schema-0"))
    document["options"]["path"], document["id"] = f"s3a://{SECRET}/{table.prefix}", 1
    with table.having("schema/schema-1", json.dumps(document).encode()):
        assert f"schema-1 has the option path='s3a://{SECRET}/{table.prefix}'" in table.stopped()


def test_a_hudi_plan_that_names_a_file_of_another_bucket_is_not_executed(spark: SparkSession, upload: Upload) -> None:
    table, name = upload("hudi", "clean"), f"{INSTANT}.clean.requested"
    plan = avro(spark, "HoodieCleanerPlan", clean_plan(FOREIGN["path"]))
    with table.having(f".hoodie/timeline/{name}", plan):
        assert f"not ours to delete or rewrite for {name}: {FOREIGN['path']}" in table.stopped()


class Events:
    """An Iceberg table that was made in the bucket: tables of this format name their files by whole paths."""

    location = f"s3a://{LAKE}/db/events"

    def __init__(self, spark: SparkSession, s3: Server) -> None:
        self.s3, self.session = s3, spark.newSession()
        catalog = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": f"s3a://{LAKE}"}
        for key, value in {**catalog, ".cache-enabled": "false"}.items():
            self.session.conf.set(f"spark.sql.catalog.attacked{key}", value)
        if not s3.keys(LAKE, "db/events/"):
            self.session.sql("CREATE TABLE attacked.db.events USING iceberg AS SELECT id FROM range(10)")

    @property
    def metadata_key(self) -> str:
        keys = [key for key in self.s3.keys(LAKE, "db/events/metadata/") if key.endswith(".metadata.json")]
        return max(keys, key=lambda key: int(key.rpartition("/")[2].removeprefix("v").partition(".")[0]))

    @property
    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.s3.get(LAKE, self.metadata_key))
        return found

    @contextmanager
    def with_metadata(self, **changed: Any) -> Iterator[None]:
        key = self.metadata_key
        original = self.s3.get(LAKE, key)
        self.s3.put(LAKE, key, json.dumps({**json.loads(original), **changed}).encode())
        try:
            yield
        finally:
            self.s3.put(LAKE, key, original)

    def run(self, action: str, **parameters: Any) -> Any:
        given = {
            "location": self.location, "boundary": boundary_parameter(self.location, warehouses=[f"s3://{LAKE}"]),
            "operation_tag": "1-1", "identity": self.metadata["table-uuid"], "older_than": 0, "expire": [],
            "rewrite": {"rewrite-all": "true"},
        }  # fmt: skip
        return job(self.session, f"iceberg.{action}", {**given, **parameters})

    def stopped(self, action: str) -> str:
        before = self.s3.everything()
        with pytest.raises(OutsideTable) as caught:
            self.run(action)
        assert self.s3.everything() == before
        return str(caught.value)

    def name_and_forget(self, path: str) -> None:
        """Commit a data file by name and remove it again, ten days ago: only old snapshots name it now."""
        java: Any = self.session.sparkContext._jvm
        session = self.session._jsparkSession
        table = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, "attacked.db.events")
        builder = java.org.apache.iceberg.DataFiles.builder(table.spec()).withPath(path).withFormat("parquet")
        file = builder.withFileSizeInBytes(15).withRecordCount(5).build()
        table.newAppend().appendFile(file).commit()
        table.newDelete().deleteFile(file).commit()
        self.make_old()

    def make_old(self) -> None:
        then = 10 * 86_400_000

        def older(value: Any) -> Any:
            if isinstance(value, dict):
                return {k: v - then if k in ("timestamp-ms", "last-updated-ms") else older(v) for k, v in value.items()}
            return [older(one) for one in value] if isinstance(value, list) else value

        self.s3.put(LAKE, self.metadata_key, json.dumps(older(self.metadata)).encode())


@pytest.fixture
def events(spark: SparkSession, s3: Server) -> Events:
    return Events(spark, s3)


def test_an_iceberg_table_whose_metadata_names_another_bucket_is_not_worked_on(events: Events) -> None:
    """The same path, another bucket."""
    with events.with_metadata(location=f"s3a://{SECRET}/db/events"):
        assert f"s3a://{SECRET}/db/events" in events.stopped("rewrite_data")


def test_a_table_below_an_iceberg_table_in_a_bucket_is_named_and_left_alone(s3: Server, events: Events) -> None:
    s3.put(LAKE, f"db/events/inner/{MARKERS['hudi']}", b"somebody else's")
    try:
        assert f"a hudi table lies below this one, at {events.location}/inner" in events.stopped("remove_orphans")
    finally:
        s3.remove(LAKE, "db/events/inner/")


def test_an_iceberg_expiry_leaves_a_file_of_another_bucket_at_the_same_path(s3: Server, events: Events) -> None:
    foreign = "db/events/data/same.parquet"
    s3.put(SECRET, foreign, b"somebody else's")
    events.name_and_forget(f"s3a://{SECRET}/{foreign}")
    document, before = events.metadata, s3.keys(SECRET)
    old = [one["snapshot-id"] for one in document["snapshots"] if one["snapshot-id"] != document["current-snapshot-id"]]
    result = events.run("expire_snapshots", expire=old, older_than=int((time.time() - 2 * 86_400) * 1000))
    assert sorted(result["expired"]) == sorted(old)
    assert s3.keys(SECRET) == before
    assert f"s3a://{SECRET}/{foreign}" in str(result)


def job(session: SparkSession, name: str, parameters: dict[str, Any]) -> object:
    from lakehand.jobs.attempt import job_called
    from lakehand.jobs.job import Job

    return job_called(name)(Job(session, parameters))
