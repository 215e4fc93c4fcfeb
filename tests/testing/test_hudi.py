# SPDX-License-Identifier: Apache-2.0
"""The published contracts, on Hudi: timelines that real writers left."""

from itertools import count
from pathlib import Path

import pytest

from lakehand.formats.hudi import HudiFormat, HudiProcessFactory
from lakehand.spi import Action, Format, Scheduling, TableReference, TableSpec
from lakehand.testing import FormatUnderTest, PluginHarness, ProcessFactoryContract, TableFormatContract
from tests.formats.hudi.runtime import FILE_LOCK, NOON, commit, copied


class HudiTable(FormatUnderTest):
    def __init__(self, folder: Path) -> None:
        self.reference = TableReference(location=str(folder))
        self._instants = count(20991115120000000, 1000)

    def reader(self) -> HudiFormat:
        return HudiFormat()

    def commit(self) -> None:
        commit(self.folder, str(next(self._instants)))


@pytest.mark.parametrize("name", ["orders_v9", "orders_v6", "events_v9"])
class TestHudiFormat(TableFormatContract):
    @pytest.fixture
    def subject(self, name: str, tmp_path: Path) -> HudiTable:
        return HudiTable(copied(name, tmp_path))


@pytest.mark.parametrize("scheduling", list(Scheduling))
@pytest.mark.parametrize("name", ["orders_v9", "events_v9", "orders_v6"])
class TestHudiProcessFactory(ProcessFactoryContract):
    @pytest.fixture
    def subject(self, name: str, scheduling: Scheduling, tmp_path: Path) -> PluginHarness:
        spec = TableSpec(
            location=str(copied(name, tmp_path)), format=Format("hudi"), table_name=name, scheduling=scheduling,
            action_types=frozenset(map(Action, ("compaction", "clustering", "clean"))), properties=FILE_LOCK,
        )  # fmt: skip
        return PluginHarness(factory=HudiProcessFactory(), format=HudiFormat(), spec=spec, now=lambda: NOON)
