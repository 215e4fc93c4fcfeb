# SPDX-License-Identifier: Apache-2.0
"""The tables that are attacked, small ones and real ones: one of each format for all tests of a process."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # tests without Spark do not wait for its import
    from pyspark.sql import SparkSession

    from tests.attacks.real_tables import RealTable


@pytest.fixture(scope="session")
def small_table(tmp_path_factory: pytest.TempPathFactory) -> "Callable[[str], Path]":
    """Of each format one, to be copied: no Spark."""
    from tests.attacks.every_job import make_small_table

    @cache
    def make(format: str) -> Path:
        path = tmp_path_factory.mktemp("small") / format
        make_small_table(format, path)
        return path

    return make


@pytest.fixture(scope="session")
def real_table(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "Callable[[str], RealTable]":
    """Whoever takes one puts it back first."""
    from tests.attacks.real_tables import RealTable

    @cache
    def make(format: str) -> RealTable:
        return RealTable(format=format, spark=spark, top=tmp_path_factory.mktemp("attacked") / format)

    return make
