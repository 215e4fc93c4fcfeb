# SPDX-License-Identifier: Apache-2.0
"""The tables that are attacked, made once for all attacks, and small ones to be put below them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import delta_tables, hudi_tables, iceberg_tables, lance_tables
from tests.attacks.scene import FORMATS, Scenes, make_old
from tests.kit.templates import made_once
from tests.paimon_tables import Lake


@pytest.fixture(scope="session")
def scenes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Scenes:
    folder = tmp_path_factory.mktemp("attacks")
    (folder / "lake").mkdir()
    victims = folder / "outside" / "victims"
    victims.mkdir(parents=True)
    for name in ("part-00000-1.c000.snappy.parquet", "data-1.parquet", "1.lance", "important.txt"):
        (victims / name).write_text("somebody else's")
    make_old(folder / "outside")
    return Scenes(spark, folder, tmp_path_factory)


@pytest.fixture(scope="session")
def inner_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small real table of each format, to be copied below another one."""
    folder = made_once(tmp_path_factory, "inner", lambda folder: make_inner_tables(spark, folder))
    return {name: folder / name for name in FORMATS} | {"paimon": folder / "lake" / "shop.db" / "inner"}


def make_inner_tables(spark: SparkSession, folder: Path) -> None:
    hudi_tables.make_table(spark, folder / "hudi", table_type=hudi_tables.COPY_ON_WRITE, commits=1)
    warehouse = iceberg_tables.open_warehouse(spark, folder)
    warehouse.create(folder / "iceberg", partitioned=False)
    warehouse.append(folder / "iceberg", files=1, rows=10)
    delta_tables.make_table(spark, folder / "delta", commits=1, files=2)
    Lake(spark, folder / "lake").create("inner")
    Lake(spark, folder / "lake").append("inner", 0, 10, files=1)
    lance_tables.make_table(folder / "lance", fragments=3)
