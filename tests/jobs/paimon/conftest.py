# SPDX-License-Identifier: Apache-2.0
"""Damaged Paimon tables, each make once: a test copies the one that it spoils further."""

import shutil
from collections.abc import Callable
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
    """Seven sorted runs in each of 16 buckets, with updates and deletes."""
    lake.create(name, paimon.KEYED)
    lake.append(name, 0, 400)
    for number in range(5):
        lake.append(name, number * 60, 200)
    lake.sql(f"DELETE FROM {{shop}}.`{name}` WHERE id < 100")


def history(lake: Lake, name: str) -> None:
    """One snapshot per commit of a stream, compacted once."""
    lake.create(name)
    writer = Writer(lake.spark, lake.path(name))
    for number in range(105):
        writer.append([number])
    lake.sql(f"CALL lake.sys.compact(table => 'shop.{name}', options => 'write-only=true,compaction.max.file-num=105')")
    for number in range(105, 115):
        writer.append([number])


TEMPLATES = {make.__name__: make for make in (small_files, partitions, keyed, history)}


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
