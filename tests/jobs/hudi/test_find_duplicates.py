# SPDX-License-Identifier: Apache-2.0
"""Keys that Hudi has made two rows of are found, by partition, and the table is left as it is."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.hudi.find_duplicates import FIND_DUPLICATES
from lakehand.spi import TableProcess
from tests import hudi_tables as hudi
from tests.formats.hudi.runtime import operation
from tests.jobs.hudi.conftest import OFF
from tests.jobs.hudi.service import LOCKING, Service, unchanged

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
ROWS = 4


@pytest.mark.long
def test_keys_that_are_twice_are_found_by_partition(spark: SparkSession, tmp_path: Path) -> None:
    path, options = tmp_path / "orders", {**LOCKING, **OFF}
    service = Service(spark=spark, path=path, properties=LOCKING)
    request = TableProcess(action=FIND_DUPLICATES, job="", parameters={"mode": "plan-and-execute"}, reason="requested")
    hudi.upsert(spark, path, number=1, rows=ROWS, options=options)
    process = service.admit(operation(request))
    assert service.execute(process) == {"searched": ROWS, "keys": 0, "rows": 0, "partitions": {}, "examples": []}
    for number in (2, 3):  # keys 0, 1 and 2 are inserted again
        hudi.upsert(
            spark, path, number=number, rows=3, options={**options, "hoodie.datasource.write.operation": "insert"}
        )

    with unchanged(spark, path):
        result = service.execute(process)

    assert result == {
        "searched": ROWS,
        "keys": 3,
        "rows": 9,
        "partitions": {"p0": 2, "p1": 1},
        "examples": ["0", "2", "1"],
    }
    assert service.verdict(process, result).numbers["keys"] == result["keys"]
