# SPDX-License-Identifier: Apache-2.0
"""An S3 server on this machine (moto), for tests: its buckets, and how a Spark session gets at them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import boto3
from botocore.client import BaseClient
from botocore.exceptions import BotoCoreError

from tests.kit.polling import wait_for
from tests.kit.ports import quiet_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
KEY = "testing"
REGION = "us-east-1"
DEADLINE = 60.0  # seconds until the server must answer
MOTO = "lakehand.demo.s3_server"  # keeps conditions also when it is busy
GATEWAY = "LAKEHAND_TEST_VERSITYGW"  # the path of that program, where it is built: then it is used in place of moto
WITH_TIMES = "tests.moto_with_times"  # objects may be older than their upload


@dataclass(frozen=True, kw_only=True)
class Server:
    endpoint: str
    client: Any

    def make_bucket(self, name: str) -> None:
        self.client.create_bucket(Bucket=name)

    def put_folder(self, folder: Path, bucket: str, prefix: str) -> None:
        """With the times of the files, if the server believes them; without Hadoop's checksums of local files."""
        for file in folder.rglob("*"):
            if file.is_file() and not (file.name.startswith(".") and file.suffix == ".crc"):
                key = f"{prefix}/{file.relative_to(folder)}"
                self.put(bucket, key, file.read_bytes(), modified=file.stat().st_mtime)

    def put(self, bucket: str, key: str, content: bytes, *, modified: float | None = None) -> None:
        metadata = {} if modified is None else {"modified": str(modified)}
        self.client.put_object(Bucket=bucket, Key=key, Body=content, Metadata=metadata)

    def get(self, bucket: str, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=bucket, Key=key)["Body"].read())

    def remove(self, bucket: str, prefix: str) -> None:
        for key in self.keys(bucket, prefix):
            self.client.delete_object(Bucket=bucket, Key=key)

    def keys(self, bucket: str, prefix: str = "") -> dict[str, str]:
        """Each object with a checksum of what it holds."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return {one["Key"]: one["ETag"] for page in pages for one in page.get("Contents", ())}

    def everything(self) -> dict[str, dict[str, str]]:
        return {one["Name"]: self.keys(one["Name"]) for one in self.client.list_buckets()["Buckets"]}

    def introduce(self, spark: "SparkSession") -> None:
        """Let the session read and write ``s3a://`` here."""
        java: Any = spark.sparkContext._jsc
        conf = java.hadoopConfiguration()
        for key, value in self.hadoop_settings().items():
            conf.set(key, value)

    def environment(self) -> dict[str, str]:
        """For clients outside of Java, such as Lance's."""
        return {
            "AWS_ENDPOINT": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_ALLOW_HTTP": "true",
        }

    def lance_options(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.environment().items()}

    def hadoop_settings(self) -> dict[str, str]:
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.access.key": KEY,
            "fs.s3a.secret.key": KEY,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
        }


@contextmanager
def s3_server(program: str = MOTO) -> Iterator[Server]:
    port = quiet_port()
    with TemporaryDirectory(prefix="buckets-") as buckets:
        process = subprocess.Popen(
            command_of(program, port, buckets), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT,
            env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": KEY},
        )  # fmt: skip
        try:
            endpoint = f"http://127.0.0.1:{port}"
            yield Server(endpoint=endpoint, client=answering(endpoint, process))
        finally:
            process.terminate()
            process.wait(30)


def command_of(program: str, port: int, buckets: str) -> list[str]:
    """moto, or the gateway that somebody has built and named, which keeps its buckets in a folder."""
    if program == MOTO and (gateway := os.environ.get(GATEWAY)):
        return [gateway, "--port", f"127.0.0.1:{port}", "posix", buckets]
    return [sys.executable, "-m", program, "-H", "127.0.0.1", "-p", str(port)]


def answering(endpoint: str, process: "subprocess.Popen[bytes]") -> BaseClient:
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=KEY
    )

    def answers() -> bool:
        try:
            client.list_buckets()
        except BotoCoreError:
            assert process.poll() is None, "the S3 server ended at its start"
            return False
        return True

    wait_for(answers, "the S3 server to answer", DEADLINE, pace=0.05)
    return client
