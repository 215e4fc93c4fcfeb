# SPDX-License-Identifier: Apache-2.0
"""The proxy that races are run behind: rivals for one key are brought together, and others are only late."""

import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import boto3
import pytest

from tests.s3_proxy import Fault, Proxy, s3_proxy
from tests.s3_server import KEY, REGION, s3_server

pytestmark = pytest.mark.server
BUCKET = "rivals"
LONG = 60.0  # seconds that no test waits for


def client(proxy: Proxy) -> Any:
    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": KEY}
    return boto3.client("s3", endpoint_url=proxy.endpoint, region_name=REGION, **keys)


def test_two_puts_of_one_key_arrive_together_and_one_alone_is_late() -> None:
    with s3_server() as server, s3_proxy(server.endpoint) as proxy, ThreadPoolExecutor(2) as threads:
        server.make_bucket(BUCKET)
        proxy.add(Fault(do="slow", kind="PUT", pattern=r"/log/\d+$", times=2, seconds=LONG))
        puts = [threads.submit(client(proxy).put_object, Bucket=BUCKET, Key="log/1", Body=b"x") for _ in range(2)]
        assert wait(puts, timeout=30).not_done == set()

        proxy.add(Fault(do="slow", kind="PUT", pattern=r"/log/\d+$", seconds=0.2))
        began = time.monotonic()
        client(proxy).put_object(Bucket=BUCKET, Key="log/2", Body=b"x")
        assert time.monotonic() - began >= 0.2
