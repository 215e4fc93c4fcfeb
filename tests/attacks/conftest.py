# SPDX-License-Identifier: Apache-2.0
"""The tables that are attacked, made once for all attacks, and small ones to be put below them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import delta_tables, hudi_tables, iceberg_tables, lance_tables
from tests.attacks.scene import FORMATS, Scenes, make_old
from tests.paimon_tables import Lake


@pytest.fixture(scope="package")
def scenes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Scenes:
    folder = tmp_path_factory.mktemp("attacks")
    (folder / "lake").mkdir()
    victims = folder / "outside" / "victims"
    victims.mkdir(parents=True)
    for name in ("part-00000-1.c000.snappy.parquet", "data-1.parquet", "1.lance", "important.txt"):
        (victims / name).write_text("somebody else's")
    make_old(folder / "outside")
    return Scenes(spark, folder)


@pytest.fixture(scope="package")
def inner_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small real table of each format, to be copied below another one."""
    folder = tmp_path_factory.mktemp("inner")
    tables = {name: folder / name for name in FORMATS}
    hudi_tables.make_table(spark, tables["hudi"], table_type=hudi_tables.COPY_ON_WRITE, commits=1)
    warehouse = iceberg_tables.open_warehouse(spark, folder)
    warehouse.create(tables["iceberg"], partitioned=False)
    warehouse.append(tables["iceberg"], files=1, rows=10)
    delta_tables.make_table(spark, tables["delta"], commits=1)
    Lake(spark, folder / "lake").create("inner")
    Lake(spark, folder / "lake").append("inner", 0, 10, files=1)
    tables["paimon"] = folder / "lake" / "shop.db" / "inner"
    lance_tables.make_table(tables["lance"])
    return tables
