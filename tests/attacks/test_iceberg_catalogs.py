# SPDX-License-Identifier: Apache-2.0
"""Iceberg tables of a catalog that points elsewhere after the admission, or keeps metadata outside of the table."""

import json
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.engines.spark.command import catalog_properties
from lakehand.formats.iceberg import IcebergFormat
from lakehand.jobs.boundary import OutsideTable
from lakehand.spi import Catalog, Format, Operation, TableReference
from lakehand.testing.harness import PluginHarness
from tests.attacks.scene import fingerprint
from tests.iceberg_tables import DAY, Warehouse, age_file, files
from tests.jobs.iceberg.service import execute, harness

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
COMMITS = ("rewrite-data", "rewrite-manifests", "expire-snapshots")
# Each loads its table by the same function, and that is where these attacks are seen: so one is tried.
ACTION = "rewrite-manifests"


class Lake:
    """A JDBC catalog with some tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.database = spark, folder, folder / "catalog.db"
        properties = {"warehouse": str(folder / "lake"), "uri": f"jdbc:sqlite:{self.database}"}
        self.catalog = Catalog(name="lake", format=Format("iceberg"), type="jdbc", properties=properties)
        self.conf: Mapping[str, str] = {
            **catalog_properties([self.catalog]),
            "spark.sql.catalog.lake.cache-enabled": "false",
        }
        self.session = spark.newSession()
        for key, value in self.conf.items():
            self.session.conf.set(key, value)
        self.session.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        self.warehouse = Warehouse(self.session, "lake.db", folder)

    def make(self, name: str, *, commits: int = 1) -> Path:
        table = self.warehouse.create(Path(name))
        for number in range(commits):
            self.warehouse.append(table, start=number * 10)
        return table

    def reference(self, name: str) -> TableReference:
        return next(reference for reference in IcebergFormat().tables(self.catalog) if reference.table_name == name)

    def service(self, name: str, **properties: str) -> PluginHarness:
        reference = self.reference(name)
        named = {key.replace("_", "-"): value for key, value in properties.items()}
        service = harness(self.spark, Path(reference.location), named)
        service.reference = reference
        service.spec = replace(service.spec, catalog="lake", db_name="db", table_name=name)
        return service

    def run(self, service: PluginHarness, operation: Operation) -> Operation:
        return service.settled(operation, execute(service, operation, self.conf))

    def metadata_of(self, name: str) -> str:
        with sqlite3.connect(self.database) as database:
            query = "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?"
            return str(database.execute(query, (name,)).fetchone()[0])

    def point(self, name: str, metadata: str) -> None:
        """What somebody with rights on the catalog's database does behind everybody's back."""
        with sqlite3.connect(self.database) as database:
            database.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", (metadata, name))

    def age(self, name: str) -> None:
        """Ten days, so that there is something to expire."""
        file = Path(self.metadata_of(name).removeprefix("file:"))
        document = json.loads(file.read_text())
        for entry in [*document["snapshots"], *document["snapshot-log"], *document["metadata-log"]]:
            entry["timestamp-ms"] -= 10 * DAY
        document["last-updated-ms"] -= 10 * DAY
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        file.write_text(json.dumps(document))

    def fingerprint(self) -> dict[str, str]:
        return {name: found for name, found in fingerprint(self.folder).items() if name != self.database.name}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(spark, tmp_path_factory.mktemp("catalog"))


def refused(lake: Lake, service: PluginHarness, operation: Operation, match: str) -> None:
    before = lake.fingerprint()
    with pytest.raises(OutsideTable, match=match):
        execute(service, operation, lake.conf)
    assert lake.fingerprint() == before


def test_an_entry_that_points_to_another_table_is_not_followed(lake: Lake) -> None:
    lake.make("ours")
    lake.make("theirs")
    service = lake.service("ours")
    operation = service.admitted(service.asked(ACTION))
    lake.point("ours", lake.metadata_of("theirs"))
    refused(lake, service, operation, "the table is at .*/theirs now, and the work was for .*/ours")


def test_another_table_under_the_same_name_at_the_same_location_is_not_touched(lake: Lake) -> None:
    lake.make("again")
    service = lake.service("again")
    operation = service.admitted(service.asked(ACTION))
    lake.warehouse.sql("DROP TABLE lake.db.`again`")
    lake.make("again")
    refused(lake, service, operation, "another table is at .*/again now")


@pytest.mark.long
def test_metadata_outside_of_the_table_is_written_only_where_an_operator_named_it(lake: Lake) -> None:
    lake.make("spread", commits=3)
    elsewhere = lake.folder / "metadata of spread"
    lake.warehouse.sql(f"ALTER TABLE lake.db.spread SET TBLPROPERTIES ('write.metadata.path'='{elsewhere}')")
    lake.warehouse.append(Path("spread"), start=90)
    lake.age("spread")
    rows = lake.warehouse.checksum(Path("spread"))
    for action in COMMITS:
        service = lake.service("spread")
        refused(lake, service, service.admitted(service.asked(action)), "metadata of spread.*extra-locations")

    service = lake.service("spread", extra_locations=str(elsewhere))
    for action in COMMITS:
        lake.run(service, service.admitted(service.asked(action)))

    assert Path(lake.metadata_of("spread").removeprefix("file:")).parent == elsewhere
    assert lake.warehouse.checksum(Path("spread")) == rows
    shutil.rmtree(lake.folder / "lake" / "db" / "spread")


@pytest.mark.long
def test_own_metadata_in_a_deeper_folder_is_no_nested_table(lake: Lake) -> None:
    lake.make("deep", commits=3)
    root = Path(lake.reference("deep").location)
    lake.warehouse.sql(f"ALTER TABLE lake.db.deep SET TBLPROPERTIES ('write.metadata.path'='{root}/more/metadata')")
    lake.warehouse.append(Path("deep"), start=90)
    shutil.move(root / "metadata", lake.folder / "away")  # only the deeper one is left
    shutil.copytree(lake.folder / "away", root / "metadata", ignore=shutil.ignore_patterns("*.json", ".*"))
    left = root / "data" / "left.parquet"
    left.write_text("x")
    for file in files(root):
        age_file(file, 10)
    service, rows = lake.service("deep"), lake.warehouse.checksum(Path("deep"))

    done = lake.run(service, service.admitted(service.asked("remove-orphans")))

    assert (done.result["deleted_files"], left.exists()) == (1, False)
    assert lake.warehouse.checksum(Path("deep")) == rows
