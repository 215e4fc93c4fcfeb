# SPDX-License-Identifier: Apache-2.0
"""Spark gets the options of object stores in its private properties file, under the names that its libraries have."""

from pathlib import Path

from lakehand.engines.spark.command import beside_ours, driver_command, driver_properties, storage_properties
from lakehand.engines.spark.jars import jars_of
from lakehand.engines.spark.java import Java
from lakehand.engines.spark.known_jars import FORMATS
from lakehand.engines.spark.settings import read_settings

SAID = {
    "s3.endpoint": "http://store.internal:9000", "s3.region": "eu-1", "s3.access-key-id": "k",
    "s3.secret-access-key": "hush", "s3.bucket.logs.endpoint": "https://other.internal",
}  # fmt: skip
CREDENTIALS = "spark.hadoop.fs.s3a.aws.credentials.provider"


def test_hadoop_and_lance_are_told_the_same() -> None:
    found = storage_properties(SAID, ["s3"])
    assert found["spark.hadoop.fs.s3a.endpoint"] == "http://store.internal:9000"
    assert found["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert found["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert found["spark.hadoop.fs.s3a.bucket.logs.endpoint"] == "https://other.internal"
    assert found["spark.hadoop.fs.s3a.bucket.logs.access.key"] == "k"
    assert found["spark.lakehand.s3.access-key-id"] == "k"
    assert found["spark.hadoop.fs.s3.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem", "s3:// is s3a://"


def test_credentials_come_from_the_settings_or_from_where_aws_clients_look() -> None:
    assert storage_properties(SAID, ["s3"])[CREDENTIALS].endswith("SimpleAWSCredentialsProvider")
    token = {**SAID, "s3.session-token": "t"}
    assert storage_properties(token, ["s3"])[CREDENTIALS].endswith("TemporaryAWSCredentialsProvider")
    assert storage_properties({}, ["s3"])[CREDENTIALS] == "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"


def test_nothing_is_set_where_no_table_is_in_a_bucket() -> None:
    assert storage_properties({}, []) == {}


def test_secrets_are_in_no_command_line_or_environment(tmp_path: Path) -> None:
    java = Java(home=Path("/java"), version=17, origin="test")
    command = driver_command(
        read_settings({"conf.spark.hadoop.fs.s3a.endpoint": "http://mine"}), home=tmp_path, spool=tmp_path / "spool",
        spark_home=tmp_path, java=java, formats=["delta"], storage=SAID, schemes=["s3"],
    )  # fmt: skip
    assert "hush" not in " ".join(command.arguments)
    assert "hush" not in " ".join(command.environment.values())
    assert command.properties["spark.hadoop.fs.s3a.secret.key"] == "hush"
    assert command.properties["spark.hadoop.fs.s3a.endpoint"] == "http://mine", "what is said to Spark itself wins"


def test_the_jars_of_a_store_are_those_that_the_formats_need_there() -> None:
    assert [jar.module for jar in jars_of(["delta"], ["s3"])][-2:] == ["hadoop-aws", "aws-java-sdk-bundle"]
    modules = {jar.module for jar in jars_of(FORMATS, ["s3"])}
    assert "iceberg-aws-bundle" in modules
    assert "hadoop-aws" not in {jar.module for jar in jars_of(FORMATS)}


def test_jars_of_a_person_are_on_one_class_path_with_ours() -> None:
    conf = {"spark.jars": "/a.jar, file:///b.jar", "spark.driver.extraClassPath": "/c.jar", "spark.x": "y"}
    assert beside_ours(conf) == {"spark.driver.extraClassPath": "/c.jar:/a.jar:/b.jar", "spark.x": "y"}


def test_jars_that_spark_must_fetch_stay_where_they_are() -> None:
    conf = {"spark.jars": "s3a://jars/a.jar"}
    assert beside_ours(conf) == conf


def test_a_log_store_of_delta_counts_for_both_spellings_of_s3(tmp_path: Path) -> None:
    java = Java(home=Path("/java"), version=17, origin="test")
    settings = read_settings({"conf.spark.delta.logStore.s3a.impl": "a.LogStore"})
    found = driver_properties(settings, home=tmp_path, java=java, formats=["delta"], jars=[])
    assert found["spark.delta.logStore.s3.impl"] == found["spark.delta.logStore.s3a.impl"] == "a.LogStore"
