# SPDX-License-Identifier: Apache-2.0
"""The published contracts, on Paimon tables that Spark wrote."""

from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.paimon import PaimonFormat, PaimonProcessFactory
from lakehand.spi import Format, TableReference, TableSpec
from lakehand.testing import FormatUnderTest, PluginHarness, ProcessFactoryContract, TableFormatContract
from tests.paimon_tables import Lake

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]


@pytest.fixture(scope="module")
def paimon_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(spark, tmp_path_factory.mktemp("paimon"))


class TableOfPaimon(FormatUnderTest):
    def __init__(self, lake: Lake, name: str) -> None:
        self.reference = TableReference(location=str(lake.create(name)))
        self._lake, self._name, self._firsts = lake, name, count(0, 10)
        self.commit()

    def reader(self) -> PaimonFormat:
        return PaimonFormat()

    def commit(self) -> None:
        self._lake.append(self._name, next(self._firsts), 10)


@pytest.fixture(scope="module")
def orders(paimon_lake: Lake) -> TableOfPaimon:
    return TableOfPaimon(paimon_lake, "orders")


@pytest.fixture(scope="module")
def events(paimon_lake: Lake) -> Path:
    folder = paimon_lake.create("events")
    paimon_lake.append("events", 0, 200, files=40)
    return folder


class TestPaimonFormat(TableFormatContract):
    @pytest.fixture
    def subject(self, orders: TableOfPaimon) -> TableOfPaimon:
        return orders


class TestPaimonProcessFactory(ProcessFactoryContract):
    @pytest.fixture
    def subject(self, events: Path) -> PluginHarness:
        spec = TableSpec(location=str(events), format=Format("paimon"), table_name=events.name)
        return PluginHarness(factory=PaimonProcessFactory(), format=PaimonFormat(), spec=spec)
