# SPDX-License-Identifier: Apache-2.0
"""The real tables that are attacked: one of each format for all tests of a process."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # tests without Spark do not wait for its import
    from pyspark.sql import SparkSession

    from tests.attacks.real_tables import RealTable


@pytest.fixture(scope="session")
def real_table(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "Callable[[str], RealTable]":
    """Whoever takes one puts it back first."""
    from tests.attacks.real_tables import RealTable

    @cache
    def make(format: str) -> RealTable:
        return RealTable(format=format, spark=spark, top=tmp_path_factory.mktemp("attacked") / format)

    return make
