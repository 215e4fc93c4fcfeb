# SPDX-License-Identifier: Apache-2.0
"""A job of Hudi does not begin without the classes of its lock. Those of hudi-aws are not in Hudi's bundle."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.hudi.locks import S3_CLIENT, STORAGE_PROVIDER
from lakehand.jobs.classes import ClassMissing
from lakehand.jobs.hudi.checks import refuse_missing_lock
from lakehand.jobs.job import Job
from lakehand.testing.harness import boundary_parameter
from lakehand.writer import storage_lock
from tests import small_tables
from tests.java_classes import make_jar
from tests.jobs.class_loaders import on_class_path
from tests.jobs.hudi.service import Service

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
DYNAMO = "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider"
IN_AWS = {
    "hoodie.write.lock.provider": DYNAMO,
    "hoodie.write.lock.dynamodb.table": "locks",
    "hoodie.write.lock.dynamodb.region": "eu-central-1",
}


def test_nothing_is_done_where_the_class_of_the_lock_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    path = small_tables.hudi(tmp_path / "orders_v9")
    before = sorted(path.rglob("*"))
    service = Service(spark=spark, path=path, properties=IN_AWS)

    with pytest.raises(ClassMissing, match=f"needs the class {DYNAMO}, which is not in the Spark driver"):
        service.execute(service.admitted("compaction"))

    assert sorted(path.rglob("*")) == before


def job_at(spark: SparkSession, location: str) -> Job:
    return Job(spark, {"boundary": boundary_parameter(location), "options": storage_lock()})


def test_the_storage_based_lock_needs_its_client_in_a_bucket_and_nowhere_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    refuse_missing_lock(job_at(spark, str(tmp_path)))
    for scheme in ("s3", "s3a"):
        with pytest.raises(ClassMissing, match=f"{STORAGE_PROVIDER} needs the class {S3_CLIENT}"):
            refuse_missing_lock(job_at(spark, f"{scheme}://lake/trips"))


def test_a_stand_in_for_the_client_of_hudi_aws_is_found(spark: SparkSession, tmp_path: Path) -> None:
    with on_class_path(spark, make_jar(tmp_path)):
        refuse_missing_lock(job_at(spark, "s3a://lake/trips"))
