# SPDX-License-Identifier: Apache-2.0
"""Paimon's format and factory against the contracts that all plugins share."""

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.formats.paimon import PaimonFormat
from lakehand.spi import TableReference
from lakehand.testing import FormatUnderTest, PluginHarness, ProcessFactoryContract, TableFormatContract
from tests.formats.paimon.handmade import NOON, File, HandMade, small
from tests.formats.paimon.runtime import harness


@dataclass
class Subject(FormatUnderTest):
    made: HandMade
    reference: TableReference

    def reader(self) -> PaimonFormat:
        return PaimonFormat()

    def commit(self) -> None:
        self.made.commit([File(f"more-{self.made.latest}.parquet")])


class TestPaimonFormat(TableFormatContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Subject:
        made = HandMade(tmp_path / "orders")
        made.commit(small(3))
        return Subject(made, TableReference(location=str(made.root)))


class TestPaimonFactory(ProcessFactoryContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> PluginHarness:
        """Small files, an old history, and a file that nothing refers to: each action has something to do."""
        made = HandMade(tmp_path / "orders")
        for number in range(30):
            made.commit(small(2, prefix=f"data-{number}"), at=NOON - timedelta(days=9) + timedelta(hours=number))
        (made.root / "bucket-0").mkdir()
        (made.root / "bucket-0" / "orphan.parquet").write_bytes(b"orphan")
        return replace(harness(made.root), now=lambda: NOON + timedelta(days=9_000))
