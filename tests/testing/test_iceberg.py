# SPDX-License-Identifier: Apache-2.0
"""The published contracts, on Iceberg tables in a folder that Spark wrote."""

from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.iceberg import IcebergFormat, IcebergProcessFactory
from lakehand.spi import Format, TableReference, TableSpec
from lakehand.testing import FormatUnderTest, PluginHarness, ProcessFactoryContract, TableFormatContract
from tests.iceberg_tables import Warehouse, open_warehouse, small_files

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return open_warehouse(spark, tmp_path_factory.mktemp("iceberg"))


class TableOfIceberg(FormatUnderTest):
    def __init__(self, warehouse: Warehouse, folder: Path) -> None:
        self.reference = TableReference(location=str(folder))
        writes: list[Callable[[], None]] = [
            lambda: warehouse.append(folder, rows=4, start=10_000),
            lambda: warehouse.delete(folder, "id = 10001"),
        ]
        self._writes = cycle(writes)

    def reader(self) -> IcebergFormat:
        return IcebergFormat()

    def commit(self) -> None:
        next(self._writes)()


@pytest.fixture(scope="module")
def orders(warehouse: Warehouse) -> TableOfIceberg:
    return TableOfIceberg(warehouse, small_files(warehouse, warehouse.folder / "orders", files=4))


@pytest.fixture(scope="module")
def events(warehouse: Warehouse) -> Path:
    return small_files(warehouse, warehouse.folder / "events", files=20)


class TestIcebergFormat(TableFormatContract):
    @pytest.fixture
    def subject(self, orders: TableOfIceberg) -> TableOfIceberg:
        return orders


class TestIcebergProcessFactory(ProcessFactoryContract):
    @pytest.fixture
    def subject(self, events: Path) -> PluginHarness:
        spec = TableSpec(location=str(events), format=Format("iceberg"), table_name=events.name)
        return PluginHarness(factory=IcebergProcessFactory(), format=IcebergFormat(), spec=spec)
