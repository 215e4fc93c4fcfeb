# SPDX-License-Identifier: Apache-2.0
"""Tables that need an archive, have a dead write, or have two commits to merge; made once, and copied for each test."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.hudi import HudiFormat, HudiProcessFactory
from lakehand.spi import Format, Operation, Scheduling, TableProcess, TableSpec
from lakehand.testing.harness import PluginHarness
from tests import hudi_failures
from tests import hudi_tables as hudi
from tests.jobs.hudi.service import LOCKING, SERVICE
from tests.kit.templates import made_once

OFF = {"hoodie.metadata.enable": "false"}
COMMITS = 6
ROWS = 4
Copy = Callable[[str], Path]
MergeOnRead = Callable[[str, Mapping[str, str]], Path]


def version(number: str) -> dict[str, str]:
    """A writer that makes tables of this version."""
    return {**LOCKING, **OFF, "hoodie.write.table.version": number, "hoodie.write.auto.upgrade": "false"}


def harness(spark: SparkSession, path: Path, **properties: str) -> PluginHarness:
    spec = TableSpec(
        location=str(path), format=Format("hudi"), table_name=path.name, scheduling=Scheduling.SERVICE,
        properties={**SERVICE, **LOCKING, **properties},
    )  # fmt: skip
    return PluginHarness(factory=HudiProcessFactory(), format=HudiFormat(), spec=spec, session=spark)


def admitted(table: PluginHarness, action: str) -> Operation:
    wanted = table.wants(action)
    assert isinstance(wanted, TableProcess), wanted
    return table.admitted(table.stored(wanted))


@pytest.fixture
def long(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Copy-on-write tables with more commits than the active timeline should have."""

    def make(folder: Path, number: str) -> None:
        hudi.make_table(
            spark, folder / "orders", table_type=hudi.COPY_ON_WRITE, commits=COMMITS, rows=ROWS, options=version(number)
        )

    def copy(number: str) -> Path:
        template = made_once(tmp_path_factory, f"long_hudi/{number}", lambda folder: make(folder, number))
        return Path(shutil.copytree(template / "orders", tmp_path / "orders"))

    return copy


@pytest.fixture
def failed(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Tables with one commit and one write that died an hour ago."""
    types = {"6": hudi.COPY_ON_WRITE, "8": hudi.MERGE_ON_READ, "9": hudi.COPY_ON_WRITE}

    def make(folder: Path, number: str) -> None:
        path, options = folder / "orders", version(number)
        hudi.upsert(spark, path, number=1, table_type=types[number], rows=ROWS, options=options)
        hudi_failures.fail_to_write(spark, path, number=2, table_type=types[number], options=options)

    def copy(number: str) -> Path:
        template = made_once(tmp_path_factory, f"failed_hudi/{number}", lambda folder: make(folder, number))
        path = Path(shutil.copytree(template / "orders", tmp_path / "orders"))
        hudi_failures.age(path)
        return path

    return copy


@pytest.fixture
def merge_on_read(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> MergeOnRead:
    """Merge-on-read tables with two commits, of a writer that shares its lock and has these options."""

    def make(path: Path, options: Mapping[str, str]) -> None:
        hudi.make_table(spark, path, commits=2, options={**LOCKING, **options})

    def copy(name: str, options: Mapping[str, str]) -> Path:
        """The name is that of the options."""
        table = "it's a table"  # its folder keeps the name that Hudi knows it by
        template = made_once(tmp_path_factory, f"merge_on_read/{name}", lambda folder: make(folder / table, options))
        return Path(shutil.copytree(template / table, tmp_path / table))

    return copy
