# SPDX-License-Identifier: Apache-2.0
"""The tables that a writer and our jobs race for, each with its way of committing, and their slow store."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url

from lakehand.formats.delta import DeltaFormat, DeltaProcessFactory
from lakehand.formats.hudi import HudiFormat, HudiProcessFactory
from lakehand.formats.iceberg import IcebergFormat, IcebergProcessFactory
from lakehand.formats.lance import LanceFormat, LanceProcessFactory
from lakehand.formats.paimon import PaimonFormat, PaimonProcessFactory
from lakehand.spi import Catalog, Format, TableSpec
from tests.e2e.catalog_servers import jdbc_uri
from tests.nessie_server import BUCKET as OF_NESSIE
from tests.s3_proxy import Fault, s3_proxy
from tests.s3_server import Server, s3_server

BUCKET = "races"
DATABASE, TABLE = "shop", "orders"
# The file that makes a commit visible, by format: Delta, Iceberg, Lance, Paimon, Hudi.
COMMIT_FILE = (
    r"/_delta_log/\d+\.json$|/metadata/(v\d+|\d+-[^/]+)\.metadata\.json$|/_versions/\d+\.manifest$|"
    r"/snapshot/snapshot-\d+$|/\.hoodie/timeline/\d+_\d+\.[a-z]+$"
)
SECONDS = 2.0  # until such a file has arrived; two of the same name that are under way arrive together
# Where Delta is forced, they wait for a rival for longer than a rewrite takes: the two do meet.
DELTA_FILE, DELTA_SECONDS = r"/delta/[^/]+/_delta_log/\d+\.json$", 8.0
PLUGINS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "delta": (DeltaFormat, DeltaProcessFactory),
    "hudi": (HudiFormat, HudiProcessFactory),
    "iceberg": (IcebergFormat, IcebergProcessFactory),
    "lance": (LanceFormat, LanceProcessFactory),
    "paimon": (PaimonFormat, PaimonProcessFactory),
}
COMPILED = ("delta", "hudi")  # formats with classes of ours in the race
UNSAFE: dict[str, Any] = {"is_allowed": False, "is_safe": False}
LOG_STORE = "io.delta.storage.S3DynamoDBLogStore"  # a stand-in on conditional puts
LOCK = "hoodie.write.lock"
PROVIDER = f"{LOCK}.provider"
STORAGE_LOCK = {PROVIDER: "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"}
HIVE_LOCK = {
    PROVIDER: "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
    f"{LOCK}.hivemetastore.database": "locks",
    f"{LOCK}.hivemetastore.table": TABLE,
}
ZOOKEEPER_LOCK = {
    PROVIDER: "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
    f"{LOCK}.zookeeper.base_path": "/locks",
    f"{LOCK}.zookeeper.lock_key": TABLE,
}
HUDI_CONCURRENCY = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
HUDI_OPTIONS = {
    "hoodie.table.name": TABLE,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.parquet.small.file.limit": "0",  # else new rows rewrite the file that an update would make a log for
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
}
EAGER = {
    "delta.optimize.min-files": "2",
    "iceberg.rewrite-data.min-input-files": "2",
    "lance.compact.min-fragments": "2",
    "paimon.compact.min-files": "2",
}


@dataclass(frozen=True, kw_only=True)
class Contest:
    """One table and how it is committed to. What the rule does not allow is forced; ``is_safe``: what we expect."""

    name: str
    format: str
    action: str
    location: str
    database: str = DATABASE
    catalog_type: str = ""
    catalog_properties: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)  # of the table
    settings: Mapping[str, str] = field(default_factory=dict)  # of the plugin: the operator's
    is_placed_by_catalog: bool = False  # then without a location until the table is there
    lists_history: bool = True  # else a rewrite is looked for right after it alone
    is_allowed: bool = True
    is_safe: bool = True

    @property
    def spec(self) -> TableSpec:
        forced = {} if self.is_allowed else {f"{self.format}.only-writer": "true"}
        own = {key: value for key, value in EAGER.items() if key.startswith(f"{self.format}.")}
        return TableSpec(
            location=self.location, format=Format(self.format), properties={**own, **forced, **self.properties}
        )

    @property
    def catalog(self) -> Catalog | None:
        if not self.catalog_type:
            return None
        return Catalog(
            name=self.name, format=Format(self.format), type=self.catalog_type, properties=self.catalog_properties
        )

    @property
    def table_name(self) -> str:
        """In Spark, through the catalog."""
        return f"{self.name}.{self.database}.{TABLE}"


def contests(folder: Path, files: Mapping[str, str], servers: Mapping[str, str]) -> list[Contest]:
    """``files``: how Iceberg's own client reaches the bucket; ``servers``: those that there are, by name."""
    return [*allowed(folder, files), *with_servers(files, servers), *refused(files)]


def allowed(folder: Path, files: Mapping[str, str]) -> Iterator[Contest]:
    at, jdbc = f"s3://{BUCKET}", f"jdbc:sqlite:{folder}/iceberg.db?busy_timeout=20000"
    yield Contest(
        name="iceberg_jdbc", format="iceberg", action="rewrite-data", location=f"{at}/central/{DATABASE}/{TABLE}",
        catalog_type="jdbc", catalog_properties={"uri": jdbc, "warehouse": f"{at}/central", **io_of(files)},
    )  # fmt: skip
    yield Contest(name="lance", format="lance", action="compact", location=f"{at}/lance/{TABLE}")
    yield Contest(  # by the scheme that has the stand-in for the log store
        name="delta_log_store_stand_in", format="delta", action="optimize", location=f"{at}/delta-log-store/{TABLE}",
        settings={"delta.log-store": LOG_STORE},
    )  # fmt: skip
    yield hudi("hudi_storage_lock_stand_in", STORAGE_LOCK, {})  # for the client of hudi-aws


def with_servers(files: Mapping[str, str], servers: Mapping[str, str]) -> Iterator[Contest]:
    if "nessie" in servers:
        yield Contest(
            name="iceberg_rest", format="iceberg", action="rewrite-data", location="",
            catalog_type="rest", is_placed_by_catalog=True, lists_history=False,
            catalog_properties={"uri": servers["nessie"], "warehouse": OF_NESSIE, "cache-enabled": "false"},
        )  # fmt: skip
    if "mariadb" in servers:
        yield paimon("mysql_lock", "jdbc", mysql_lock(make_url(servers["mariadb"])))
    if "hive" in servers:
        yield Contest(
            name="iceberg_hive", format="iceberg", action="rewrite-data", location="",
            catalog_type="hive", database="of_iceberg", is_placed_by_catalog=True,
            catalog_properties={"uri": servers["hive"], "warehouse": f"s3://{BUCKET}/hive", **io_of(files)},
        )  # fmt: skip
        yield paimon("hive_lock", "hive", {"uri": servers["hive"]})
        yield hudi("hudi_hive_lock", HIVE_LOCK, {f"{LOCK}.hivemetastore.uris": servers["hive"]})
    if "zookeeper" in servers:
        yield hudi("hudi_zookeeper_lock", ZOOKEEPER_LOCK, {f"{LOCK}.zookeeper.url": servers["zookeeper"]})


def hudi(name: str, lock: Mapping[str, str], addresses: Mapping[str, str]) -> Contest:
    """``addresses``: the part of the lock's options that only an operator may set."""
    return Contest(
        name=name, format="hudi", action="compaction", location=f"s3a://{BUCKET}/{name}/{TABLE}",
        properties={**lock, **HUDI_CONCURRENCY}, settings=addresses,
    )  # fmt: skip


def paimon(name: str, catalog_type: str, properties: Mapping[str, str]) -> Contest:
    warehouse, database = f"s3a://{BUCKET}/{name}", "of_paimon"
    return Contest(
        name=f"paimon_{name}", format="paimon", action="compact", location=f"{warehouse}/{database}.db/{TABLE}",
        catalog_type=catalog_type, database=database,
        catalog_properties={**properties, "warehouse": warehouse, "lock.enabled": "true"},
    )  # fmt: skip


def mysql_lock(url: URL) -> dict[str, str]:
    """Paimon knows the lock only by the name of MySQL."""
    engine = jdbc_uri(url).replace("mariadb", "mysql") + "?permitMysqlScheme"
    user = {"jdbc.user": url.username or "", "jdbc.password": ""}
    return {"engine.uri": engine, "reader.uri": jdbc_uri(url), **user}


def io_of(files: Mapping[str, str]) -> dict[str, str]:
    return {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", **files, "cache-enabled": "false"}


def refused(files: Mapping[str, str]) -> Iterator[Contest]:
    warehouse = f"s3a://{BUCKET}/hadoop"
    yield Contest(
        name="iceberg_hadoop", format="iceberg", action="rewrite-data", location=f"{warehouse}/{DATABASE}/{TABLE}",
        catalog_type="hadoop", catalog_properties={"warehouse": warehouse, **files, "cache-enabled": "false"},
        **UNSAFE,
    )  # fmt: skip
    yield Contest(
        name="delta", format="delta", action="optimize", location=f"s3a://{BUCKET}/delta/{TABLE}", **UNSAFE
    )  # fmt: skip
    plain = f"s3://{BUCKET}/plain"
    yield Contest(
        name="paimon_filesystem", format="paimon", action="compact", location=f"{plain}/{DATABASE}.db/{TABLE}",
        catalog_type="filesystem", catalog_properties={"warehouse": plain}, **UNSAFE,
    )  # fmt: skip


@contextmanager
def slow_store() -> Iterator[Server]:
    """An S3 server with the buckets, where a file that makes a commit visible takes a while to arrive.

    As on a busy store, there is time between "is this version there?" and the version: rivals meet in it.
    """
    with s3_server() as server, s3_proxy(server.endpoint) as proxy:
        for name in (BUCKET, OF_NESSIE):
            server.make_bucket(name)
        for pattern, seconds in ((DELTA_FILE, DELTA_SECONDS), (COMMIT_FILE, SECONDS)):
            proxy.add(Fault(do="slow", kind="PUT", pattern=pattern, times=sys.maxsize, seconds=seconds))
        yield replace(server, endpoint=proxy.endpoint)
