# SPDX-License-Identifier: Apache-2.0
"""The published contracts, on Delta tables that the deltalake library wrote."""

from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehand.formats.delta import DeltaFormat, DeltaProcessFactory
from lakehand.spi import Format, TableReference, TableSpec
from lakehand.testing import FormatUnderTest, PluginHarness, ProcessFactoryContract, TableFormatContract


def append(folder: Path, first: int = 0) -> None:
    ids = range(first, first + 10)
    rows = pa.table({"id": list(ids), "day": [f"2026-11-{1 + number % 2:02d}" for number in ids]})
    write_deltalake(str(folder), rows, mode="append", partition_by=["day"])


def delete(folder: Path) -> None:
    DeltaTable(str(folder)).delete("id = 3")


def checkpoint(folder: Path) -> None:
    append(folder)
    DeltaTable(str(folder)).create_checkpoint()


class TableOfDelta(FormatUnderTest):
    def __init__(self, folder: Path) -> None:
        self.reference = TableReference(location=str(folder))
        for number in range(5):
            append(folder, 10 * number)
        self._commits: cycle[Callable[[Path], None]] = cycle([append, delete, checkpoint])

    def reader(self) -> DeltaFormat:
        return DeltaFormat()

    def commit(self) -> None:
        next(self._commits)(self.folder)


class TestDeltaFormat(TableFormatContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> TableOfDelta:
        return TableOfDelta(tmp_path / "orders")


class TestDeltaProcessFactory(ProcessFactoryContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> PluginHarness:
        for number in range(20):
            append(tmp_path / "orders", 10 * number)
        spec = TableSpec(
            location=str(tmp_path / "orders"), format=Format("delta"), properties={"delta.z-order.columns": "id"}
        )
        return PluginHarness(factory=DeltaProcessFactory(), format=DeltaFormat(), spec=spec)
