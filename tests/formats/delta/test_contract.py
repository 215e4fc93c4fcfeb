# SPDX-License-Identifier: Apache-2.0
"""The published contracts, on Delta."""

from pathlib import Path

import pytest

from lakehand.formats.delta import DeltaFormat
from lakehand.testing import FormatUnderTest, PluginHarness, ProcessFactoryContract, TableFormatContract
from tests.formats.delta.logs import MB, LogTable, add, adds, remove


class DeltaTable(FormatUnderTest):
    def __init__(self, folder: Path) -> None:
        self.table = LogTable(folder, adds(30, MB))
        self.reference = self.table.reference

    def reader(self) -> DeltaFormat:
        return DeltaFormat()

    def commit(self) -> None:
        self.table.commit(add(f"more-{self.table.version}.parquet", MB))


class TestDeltaFormat(TableFormatContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> DeltaTable:
        return DeltaTable(tmp_path / "payments")


class TestDeltaProcessFactory(ProcessFactoryContract):
    """A table that needs all four actions."""

    @pytest.fixture
    def subject(self, tmp_path: Path) -> PluginHarness:
        vectors = [add(f"vector-{n}.parquet", MB, deleted=100) for n in range(30)]
        table = LogTable(tmp_path / "payments", [*adds(3, MB, prefix="gone"), *vectors], days_ago=20)
        table.commit(*(remove(f"gone-{n}.parquet", days_ago=10) for n in range(3)), days_ago=10)
        table.commit(add("last.parquet", MB))
        return table.harness(z_order__columns="id", z_order__min_bytes="1")
