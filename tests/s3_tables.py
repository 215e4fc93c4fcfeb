# SPDX-License-Identifier: Apache-2.0
"""A small table of each format in a bucket, made without Spark, and one more commit for each of them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehand.spi import Catalog, Format, TableReference
from tests import small_tables
from tests.formats.paimon.handmade import HandMade, small
from tests.s3_server import KEY, REGION, Server

BUCKET = "lake"
COMMITS = 6
NEXT_INSTANT = "20261115230000000"


@dataclass
class S3Tables:
    """Where they are in the bucket, and their copies on this machine, which are changed first."""

    server: Server
    endpoint: str  # as readers are told: perhaps a proxy
    folder: Path
    paimon: HandMade = field(init=False)
    sql: Any = field(init=False)

    def make(self) -> None:
        small_tables.delta(self.folder / "delta", COMMITS)
        small_tables.lance(self.folder / "lance", COMMITS)
        small_tables.hudi(self.folder / "hudi")
        self.paimon = HandMade(self.folder / "paimon")
        for number in range(COMMITS):
            self.paimon.commit(small(2, f"data{number}"))
        for name in ("delta", "lance", "hudi", "paimon"):
            self.upload(name)
        self.sql = self.open_catalog()
        self.make_iceberg()

    def upload(self, name: str) -> None:
        """Only what is not there yet: a copy of the rest would look like a change."""
        there = self.server.keys(BUCKET, f"tables/{name}/")
        for file in sorted((self.folder / name).rglob("*")):
            key = f"tables/{name}/{file.relative_to(self.folder / name)}"
            if file.is_file() and (key not in there or file.name == "LATEST"):
                self.server.put(BUCKET, key, file.read_bytes())

    def open_catalog(self) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        direct = {**self.file_properties(), "s3.endpoint": self.server.endpoint}
        found = SqlCatalog(
            "central", uri=f"sqlite:///{self.folder / 'catalog.db'}", warehouse=f"s3://{BUCKET}/central", **direct
        )
        found.create_namespace("shop")
        return found

    def make_iceberg(self) -> None:
        table = self.sql.create_table("shop.orders", schema=small_tables.rows().schema)
        for _ in range(COMMITS):
            table.append(small_tables.rows())
        self.put_hadoop_version(COMMITS)

    def put_hadoop_version(self, version: int) -> None:
        """Hadoop layout names the same content by numbers, and a hint."""
        location = f"s3://{BUCKET}/tables/iceberg"
        key = self.sql.load_table("shop.orders").metadata_location.removeprefix(f"s3://{BUCKET}/")
        document = {**json.loads(self.server.get(BUCKET, key)), "location": location}
        folder = "tables/iceberg/metadata"
        self.server.put(BUCKET, f"{folder}/v{version}.metadata.json", json.dumps(document).encode())
        self.server.put(BUCKET, f"{folder}/version-hint.text", str(version).encode())

    def commit(self, name: str) -> None:
        """One more of a writer."""
        if name == "iceberg-jdbc":
            self.sql.load_table("shop.orders").append(small_tables.rows())
        elif name == "iceberg":
            self.sql.load_table("shop.orders").append(small_tables.rows())
            hint = int(self.server.get(BUCKET, "tables/iceberg/metadata/version-hint.text"))
            self.put_hadoop_version(hint + 1)
        else:
            self.commit_locally(name)
            self.upload(name)

    def commit_locally(self, name: str) -> None:
        if name == "delta":
            small_tables.delta(self.folder / name, 1)
        elif name == "lance":
            import lance

            lance.write_dataset(small_tables.rows(), str(self.folder / name), mode="append")
        elif name == "paimon":
            self.paimon.commit(small(2, f"data{self.paimon.latest}"))
        else:
            timeline = self.folder / name / ".hoodie" / "timeline"
            (timeline / f"{NEXT_INSTANT}.deltacommit.requested").write_bytes(b"")

    def references(self) -> dict[str, TableReference]:
        by_path = ("delta", "hudi", "iceberg", "lance", "paimon")
        found = {name: TableReference(location=f"s3://{BUCKET}/tables/{name}") for name in by_path}
        location = f"s3://{BUCKET}/central/shop/orders"
        jdbc = TableReference(location=location, catalog=self.catalog(), db_name="shop", table_name="orders")
        return {**found, "iceberg-jdbc": jdbc}

    def catalog(self) -> Catalog:
        uri, warehouse = f"jdbc:sqlite:{self.folder / 'catalog.db'}", f"s3://{BUCKET}/central"
        properties = {"uri": uri, "warehouse": warehouse, **self.file_properties()}
        return Catalog(name="central", format=Format("iceberg"), type="jdbc", properties=properties)

    def file_properties(self) -> dict[str, str]:
        return {
            "s3.endpoint": self.endpoint, "s3.region": REGION, "client.region": REGION,
            "s3.access-key-id": KEY, "s3.secret-access-key": KEY, "s3.path-style-access": "true",
        }  # fmt: skip

    def reader_properties(self) -> Mapping[str, str]:
        return {key: value for key, value in self.file_properties().items() if key != "client.region"}


@contextmanager
def s3_tables(server: Server, endpoint: str, folder: Path) -> Iterator[S3Tables]:
    made = S3Tables(server, endpoint, folder)
    server.make_bucket(BUCKET)
    made.make()
    try:
        yield made
    finally:
        made.sql.close()
