# SPDX-License-Identifier: Apache-2.0
"""Tables of all formats in a bucket of a server: made there or copied there, with the ages that they had on disk."""

import json
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.engines.spark.command import catalog_properties
from lakehand.spi import Catalog, Format
from tests import iceberg_tables, lance_tables
from tests.e2e.every_action import DAYS, LOST, Need, Spoiler
from tests.e2e.every_action_s3 import COPIED, IN_CATALOG, NEEDS, SCHEMA
from tests.s3_server import KEY, REGION, Server

BUCKET = "lake-of-all-formats"  # its own name: Hadoop keeps a file system per bucket, whatever server it was on
CATALOG, _, DATABASE = SCHEMA.partition(".")


@dataclass(frozen=True, kw_only=True)
class BucketTables:
    spark: SparkSession
    s3: Server
    folder: Path
    before: dict[Need, object] = field(default_factory=dict)  # what readers saw before anything was done

    def make(self, factory: pytest.TempPathFactory) -> None:
        self.s3.introduce(self.spark)
        spoiler = Spoiler(self.spark, self.folder, factory)
        for need in COPIED:
            self.s3.put_folder(spoiler.make(need), BUCKET, f"tables/{name_of(need)}")
            self.before[need] = spoiler.facts(need)
        session = self.catalog_session()
        session.sql(f"CREATE NAMESPACE {SCHEMA}")
        for need in IN_CATALOG:
            need.spoil(session, Path(name_of(need)))
            self.before[need] = self.facts_of(need, session)
            self.age(name_of(need))
            if "remove-orphans" in need.actions:
                self.lose_files(name_of(need))

    def catalog_session(self) -> SparkSession:
        files = {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.endpoint": self.s3.endpoint, "client.region": REGION,
            "s3.access-key-id": KEY, "s3.secret-access-key": KEY, "s3.path-style-access": "true",
            "cache-enabled": "false",
        }  # fmt: skip
        properties = {**self.catalog_settings(), **files}
        catalog = Catalog(name=CATALOG, format=Format("iceberg"), type="jdbc", properties=properties)
        session = self.spark.newSession()
        for key, value in catalog_properties([catalog]).items():
            session.conf.set(key, value)
        return session

    def catalog_settings(self) -> dict[str, str]:
        return {"uri": f"jdbc:sqlite:{self.folder}/catalog.db", "warehouse": f"s3://{BUCKET}/{CATALOG}"}

    def age(self, name: str) -> None:
        """Let the history of an Iceberg table tell of older commits, in the same file."""
        with sqlite3.connect(self.folder / "catalog.db") as catalog:
            query = "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?"
            [location] = catalog.execute(query, [name]).fetchone()
        key = str(location).removeprefix(f"s3://{BUCKET}/")
        document: dict[str, Any] = json.loads(self.s3.get(BUCKET, key))
        iceberg_tables.age_history(document, DAYS)
        self.s3.put(BUCKET, key, json.dumps(document).encode())

    def lose_files(self, name: str) -> None:
        """What a writer leaves that died before its commit, some days ago."""
        [first, *_] = self.s3.keys(BUCKET, f"{CATALOG}/{DATABASE}/{name}/data/")
        content, then = self.s3.get(BUCKET, first), time.time() - DAYS * 86_400
        for number in range(LOST):
            self.s3.put(BUCKET, f"{first.rpartition('/')[0]}/lost-{number}.parquet", content, modified=then)

    def facts(self) -> dict[Need, object]:
        """What readers of the bucket see."""
        session = self.catalog_session()
        return {need: self.facts_of(need, session) for need in NEEDS}

    def facts_of(self, need: Need, session: SparkSession) -> object:
        if need.format == "iceberg":
            return need.facts(session, Path(name_of(need)))
        if need.format == "lance":
            uri = location_of(need).replace("s3a:", "s3:")
            return lance_tables.facts(uri, options=self.s3.lance_options())
        return need.facts(self.spark, location_of(need))

    def lost_files(self) -> list[str]:
        return [key for key in self.s3.keys(BUCKET) if "/lost-" in key]


def name_of(need: Need) -> str:
    return need.reference(Path()).name


def location_of(need: Need) -> str:
    if need.format == "iceberg":
        return f"s3://{BUCKET}/{CATALOG}/{DATABASE}/{name_of(need)}"
    return f"s3a://{BUCKET}/tables/{name_of(need)}"


def names_in_catalog(need: Need) -> dict[str, str]:
    """As a registration has them."""
    is_in_catalog = need.format == "iceberg"
    return {"catalog": CATALOG, "db_name": DATABASE, "table_name": name_of(need)} if is_in_catalog else {}
