# SPDX-License-Identifier: Apache-2.0
"""A Delta table in a bucket (moto) that is safe by a log store whose jar a person names, through a service."""

import json
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pytest

from tests import small_tables
from tests.java_classes import make_jar
from tests.kit.service import RunningService
from tests.s3_server import KEY, REGION, Server, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
BUCKET = "lake-of-delta"
LOG_STORE = "io.delta.storage.S3DynamoDBLogStore"


@pytest.fixture
def s3() -> Iterator[Server]:
    with s3_server() as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture
def service(s3: Server, tmp_path: Path) -> Iterator[RunningService]:
    one = RunningService(
        tmp_path / "home", tmp_path, bucket=f"s3://{BUCKET}", storage__s3__endpoint=s3.endpoint,
        storage__s3__region=REGION, storage__s3__access_key_id=KEY, storage__s3__secret_access_key=KEY,
        spark=json.dumps({"spark.jars": str(make_jar(tmp_path)), "spark.delta.logStore.s3a.impl": LOG_STORE}),
    )  # fmt: skip
    yield one
    one.end()


def test_a_table_is_optimized_with_a_stand_in_for_the_log_store_on_dynamodb(
    s3: Server, service: RunningService, tmp_path: Path
) -> None:
    s3.put_folder(small_tables.delta(tmp_path / "orders", commits=12), BUCKET, "orders")
    location = f"s3://{BUCKET}/orders"
    before = facts(s3, location)
    service.start()
    service.add_table(location, "optimize", format="delta", properties={"delta.optimize.min-files": "2"})

    done = service.wait_status(location, "succeeded", "failed", action="optimize")

    assert (done["status"], done["attempts"]) == ("succeeded", 1), done
    files, rows = facts(s3, location)
    assert (files, rows) == (1, before[1])
    assert before[0] > 1


def facts(s3: Server, location: str) -> tuple[int, list[int]]:
    table = deltalake.DeltaTable(location, storage_options=s3.lance_options())
    return len(table.file_uris()), sorted(table.to_pyarrow_table(columns=["id"]).column("id").to_pylist())
