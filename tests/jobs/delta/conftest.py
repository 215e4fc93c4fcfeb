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
from tests.kit.tiers import long_values


def collected(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """pyspark leaves sockets to the collector: those of a fixture are collected in it."""

    def make_and_collect(path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            make(path)
            gc.collect()

    return make_and_collect


HarnessFor = Callable[..., PluginHarness]
LOG = {"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 7 days"}
BOTH_POLICIES = pytest.mark.parametrize("log_template", ["classic", *long_values("v2")], indirect=True)


@pytest.fixture(scope="session")
def spoiled_template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 small files with 720 rows, and most of the files have a deletion vector."""

    def make(path: Path) -> None:
        delta.make_table(spark, path, commits=2, files=12)
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


@pytest.fixture(scope="session")
def log_template(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten days ago versions 0 to 4, with checkpoints of 2 and 4; version 5 is of today.

    With classic checkpoints, unless a test says otherwise. All that is old is past the log's retention.
    """
    policy = getattr(request, "param", "classic")

    def make(path: Path) -> None:
        delta.make_table(spark, path, commits=4, files=1, properties={**LOG, "delta.checkpointPolicy": policy})
        delta.age(spark, path, 10)
        delta.append(spark, path, number=4)  # at the next version Delta itself would clean up

    return made_once(tmp_path_factory, f"delta/old log {policy}", collected(make))


@pytest.fixture
def old_log(spark: SparkSession, log_template: Path, tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(log_template, tmp_path / "old %20 {log}"))
    delta.forget(spark)


@pytest.fixture
def long_log(old_log: Path) -> Path:
    """The same without its checkpoints."""
    for file in (*delta.log(old_log).glob("*checkpoint*"), *delta.log(old_log).glob("_sidecars/*")):
        file.unlink()
    return old_log


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
        """Settings without their ``delta.``, with ``__`` for dots and ``_`` for hyphens. No table rests."""
        given = {"rest_period": "0s", **properties}
        named = {f"delta.{k.replace('__', '.').replace('_', '-')}": v for k, v in given.items()}
        spec = TableSpec(
            location=str(path), format=Format("delta"), db_name="shop", table_name="payments", properties=named,
            action_types=frozenset(map(Action, ("optimize", "z-order", "vacuum", "purge", "checkpoint", "clean-log"))),
        )  # fmt: skip
        return PluginHarness(factory=DeltaProcessFactory(), format=DeltaFormat(), spec=spec, session=spark)

    return harness
