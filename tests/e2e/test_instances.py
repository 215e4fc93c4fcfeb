# SPDX-License-Identifier: Apache-2.0
"""Two instances share one PostgreSQL and forty tables; one of them is killed and comes back."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import hudi_tables
from tests.e2e.conftest import Start
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,  # tests/rolling has several instances, too
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
TABLES = 40


def finished(service: RunningService, at_least: int) -> bool:
    return len(service.operations(status="succeeded")) >= at_least


def test_every_plan_of_forty_tables_is_executed_once_while_an_instance_dies(
    spark: SparkSession,
    light_table: Path,
    copy_of: Callable[..., Path],
    start_service: Start,
    postgresql_url: str,
) -> None:
    paths = [copy_of(light_table, f"t{n:02d}") for n in range(TABLES)]
    settings = {"database": postgresql_url, "lease": "15", "lease_margin": "3", "retry__first_delay": "1"}
    one, two = start_service("one", **settings), start_service("two", **settings)
    for path in paths:
        one.add_table(path)
    wait_for(lambda: finished(two, TABLES // 4), "a quarter of the plans")
    one.kill()
    wait_for(lambda: finished(two, TABLES // 2), "half of the plans")
    one.start()
    wait_for(lambda: finished(two, TABLES), "all plans")

    operations = two.operations()
    assert len(operations) == TABLES
    [(instant, _)] = hudi_tables.pending(light_table)
    for path in paths:
        assert len(hudi_tables.completed(path, instant)) == 1
        assert hudi_tables.rows(spark, path) == hudi_tables.expected(3)
