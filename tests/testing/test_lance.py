# SPDX-License-Identifier: Apache-2.0
"""The published contracts, on Lance tables that its own library wrote."""

from itertools import count
from pathlib import Path

import pytest

from lakehand.formats.lance import LanceFormat, LanceProcessFactory
from lakehand.spi import Place
from lakehand.testing import FormatUnderTest, ProcessFactoryContract, Rehearsal, TableFormatContract
from tests import lance_tables


class LanceTable(FormatUnderTest):
    def __init__(self, folder: Path) -> None:
        self.place = Place(location=str(lance_tables.make_table(folder, fragments=5)))
        self._numbers = count(1000, 10)

    def reader(self) -> LanceFormat:
        return LanceFormat()

    def commit(self) -> None:
        lance_tables.append(self.folder, next(self._numbers))


class TestLanceFormat(TableFormatContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> LanceTable:
        return LanceTable(tmp_path / "vectors.lance")


class TestLanceProcessFactory(ProcessFactoryContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Rehearsal:
        folder = lance_tables.make_table(tmp_path / "vectors.lance", fragments=40)
        spec = lance_tables.spec(folder)
        return Rehearsal(factory=LanceProcessFactory(), format=LanceFormat(), spec=spec)
