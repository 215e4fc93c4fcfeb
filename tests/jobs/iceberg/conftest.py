# SPDX-License-Identifier: Apache-2.0
"""Damaged tables, made once and put back for each test that wants one."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import iceberg_tables as iceberg
from tests.iceberg_tables import Warehouse

Damaged = Callable[[int], Path]


@pytest.fixture(scope="session")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return iceberg.open_warehouse(spark, tmp_path_factory.mktemp("iceberg"))


@pytest.fixture(scope="session")
def templates() -> dict[str, Path]:
    """By name: a copy of each damaged table that some test has asked for."""
    return {}


@pytest.fixture
def damaged(warehouse: Warehouse, templates: dict[str, Path]) -> Damaged:
    """Gives a table of a format version with 100 small files and deleted rows in most of them."""

    def make(version: int) -> Callable[[Path], object]:
        return lambda table: iceberg.small_files(warehouse, table, version=version)

    return lambda version: put_back(warehouse, templates, f"small files {version}", make(version))


@pytest.fixture
def rewritten(warehouse: Warehouse, templates: dict[str, Path]) -> Path:
    """A table that was rewritten, and is ten days old: old snapshots hold on to files that nobody needs."""

    def make(table: Path) -> None:
        iceberg.small_files(warehouse, table, files=10)
        procedure = f"CALL {warehouse.catalog}.system.rewrite_data_files"
        options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
        warehouse.sql(f"{procedure}(table => '`{table.name}`', options => {options})")
        iceberg.age(table, 10)

    return put_back(warehouse, templates, "rewritten", make)


@pytest.fixture
def history(warehouse: Warehouse, templates: dict[str, Path]) -> Path:
    """A table with a dozen appends, ten days old, in a folder with a name that is hard to quote."""

    def make(table: Path) -> None:
        iceberg.many_snapshots(warehouse, table)
        iceberg.age(table, 10)

    return put_back(warehouse, templates, "it's {history} [1]", make)


def put_back(warehouse: Warehouse, templates: dict[str, Path], name: str, make: Callable[[Path], object]) -> Path:
    table = warehouse.folder / name
    if name not in templates:
        make(table)
        templates[name] = warehouse.folder.parent / f"copy of {name}"
        shutil.copytree(table, templates[name])
    return iceberg.restore(templates[name], table)
