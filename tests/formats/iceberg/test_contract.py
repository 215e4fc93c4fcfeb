# SPDX-License-Identifier: Apache-2.0
"""Iceberg keeps the contracts that every format and every factory keeps."""

from pathlib import Path

import pytest

from lakehand.formats.iceberg import IcebergFormat
from lakehand.spi import TableFormat
from lakehand.testing import FormatUnderTest, PluginHarness, ProcessFactoryContract, TableFormatContract
from tests.formats.iceberg.made import WrittenTable


class WrittenSubject(FormatUnderTest):
    def __init__(self, folder: Path) -> None:
        self.written = WrittenTable(folder=folder)
        self.reference = self.written.reference

    def reader(self) -> TableFormat:
        return IcebergFormat()

    def commit(self) -> None:
        self.written.commit()


class TestIcebergFormat(TableFormatContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> FormatUnderTest:
        return WrittenSubject(tmp_path / "t")


class TestIcebergFactory(ProcessFactoryContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> PluginHarness:
        written = WrittenTable(folder=tmp_path / "t")
        for _ in range(3):
            written.commit()
        return written.harness(rewrite_data__min_input_files="2", rewrite_manifests__min_manifests="2")
