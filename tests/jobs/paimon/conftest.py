# SPDX-License-Identifier: Apache-2.0
"""Damaged Paimon tables, each make once: a test copies the one that it spoils further."""

import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import paimon_tables as paimon
from tests.kit.templates import made_once
from tests.paimon_tables import Lake, Writer

Make = Callable[[str], Lake]


def small_files(lake: Lake, name: str) -> None:
    lake.create(name)
    lake.append(name, 0, 2000, files=100)
    lake.append(name, 2000, 40, files=4)


def partitions(lake: Lake, name: str) -> None:
    """Of very different numbers of small files."""
    lake.create(name, partitioned=True)
    lake.append(name, 0, 900, files=30, partitions=1)
    lake.append(name, 900, 700, files=70, partitions=2)
    lake.append(name, 1600, 60, files=6, partitions=5)


def keyed(lake: Lake, name: str) -> None:
    """Seven sorted runs in each of 4 buckets, with updates and deletes."""
    lake.create(name, {**paimon.KEYED, "bucket": "4"})
    lake.append(name, 0, 400)
    for number in range(5):
        lake.append(name, number * 60, 200)
    lake.sql(f"DELETE FROM {{shop}}.`{name}` WHERE id < 100")


def history(lake: Lake, name: str) -> None:
    """36 snapshots, one per commit of a stream; the 26th is a compaction."""
    lake.create(name)
    writer = Writer(lake.spark, lake.path(name))
    for number in range(25):
        writer.append([number])
    lake.sql(f"CALL lake.sys.compact(table => 'shop.{name}', options => 'write-only=true,compaction.max.file-num=25')")
    for number in range(25, 35):
        writer.append([number])


def days(lake: Lake, name: str) -> None:
    """Three old days, of 2, 2 and 1 files; one of today; and two partitions whose values are not a time."""
    lake.create(name, partitioned=True)
    today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    others = {3: "'2024-01-03'", 6: "'other'", 7: "cast(null AS string)"}
    for first in (0, 100):
        values = {1: "'2024-01-01'", 2: "'2024-01-02'", 5: f"'{today}'", **({} if first else others)}
        rows = ", ".join(f"({first + number}, 7, {day}, 'note')" for number, day in values.items())
        lake.sql(f"INSERT INTO {{shop}}.`{name}` VALUES {rows}")


def tagged(lake: Lake, name: str) -> None:
    """Tags of snapshots that have expired: two are past their own time; files 3 to 5 are in the tag ``over`` alone."""
    lake.create(name)
    writer = Writer(lake.spark, lake.path(name))
    for number in range(6):
        writer.append([number])
    lake.sql(f"CALL lake.sys.compact(table => 'shop.{name}', options => 'write-only=true,compaction.max.file-num=6')")
    for number in range(6, 12):
        writer.append([number])
    for tag, number, own in (("kept", 3, ""), ("over", 6, "1 d"), ("double", 9, ""), ("over too", 9, "1 d")):
        retained = f", time_retained => '{own}'" if own else ""
        lake.sql(f"CALL lake.sys.create_tag(table => 'shop.{name}', tag => '{tag}', snapshot => {number}{retained})")
    lake.sql(f"CALL lake.sys.expire_snapshots(table => 'shop.{name}', retain_max => 3, retain_min => 1)")
    paimon.age_tags(lake.path(name), 10)


TEMPLATES = {make.__name__: make for make in (small_files, partitions, keyed, history, days, tagged)}


@pytest.fixture(scope="session")
def templates(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        make = TEMPLATES[name]
        folder = made_once(tmp_path_factory, f"paimon/{name}", lambda folder: make(Lake(spark, folder), name))
        return Lake(spark, folder).path(name)

    return make


@pytest.fixture
def lake_with(spark: SparkSession, tmp_path: Path, templates: Callable[[str], Path]) -> Make:
    """A lake of the test's own with a copy of a template in it."""
    lake = Lake(spark, tmp_path / "lake")

    def copied(name: str) -> Lake:
        shutil.copytree(templates(name), lake.path(name))
        return lake

    return copied
