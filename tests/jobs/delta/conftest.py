# SPDX-License-Identifier: Apache-2.0
"""Spoiled tables, written once and copied for each test: a Delta table names its files relative to itself."""

import gc
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.delta import DeltaFormat, DeltaProcessFactory
from lakehand.spi import Action, Format, TableSpec
from lakehand.testing.harness import PluginHarness
from tests import delta_tables as delta
from tests.kit.templates import made_once


def collected(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """pyspark leaves sockets to the collector: those of a fixture are collected in it."""

    def make_and_collect(path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            make(path)
            gc.collect()

    return make_and_collect


HarnessFor = Callable[..., PluginHarness]


@pytest.fixture(scope="session")
def spoiled_template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 small files, most of which have a deletion vector."""

    def make(path: Path) -> None:
        delta.make_table(spark, path)
        delta.delete(spark, path, "id % 10 = 3")

    return made_once(tmp_path_factory, "delta/spoiled", collected(make))


@pytest.fixture(scope="session")
def old_template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten days ago 40 files became one."""

    def make(path: Path) -> None:
        delta.make_table(spark, path, commits=2)
        spark.newSession().sql(f"OPTIMIZE {delta.quoted(path)}").collect()
        delta.age(spark, path, 10)

    return made_once(tmp_path_factory, "delta/old", collected(make))


@pytest.fixture
def spoiled(spoiled_template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(spoiled_template, tmp_path / "it's a [spoiled] `table`"))


@pytest.fixture
def old(spark: SparkSession, old_template: Path, tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(old_template, tmp_path / "old %20 {table}"))
    delta.forget(spark)


@pytest.fixture
def harness_for(spark: SparkSession) -> HarnessFor:
    def harness(path: Path, **properties: str) -> PluginHarness:
        """Settings without their ``delta.``, with ``__`` for dots and ``_`` for hyphens."""
        named = {f"delta.{k.replace('__', '.').replace('_', '-')}": v for k, v in properties.items()}
        spec = TableSpec(
            location=str(path), format=Format("delta"), db_name="shop", table_name="payments", properties=named,
            action_types=frozenset(map(Action, ("optimize", "z-order", "vacuum", "purge"))),
        )  # fmt: skip
        return PluginHarness(factory=DeltaProcessFactory(), format=DeltaFormat(), spec=spec, session=spark)

    return harness
