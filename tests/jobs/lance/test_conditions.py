# SPDX-License-Identifier: Apache-2.0
"""A job of Lance tries whether its bucket keeps conditions before the first commit, on a real S3 server (moto).

A store that ignores them is that server behind a proxy which drops the condition from each request.
"""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.job import Job
from lakehand.jobs.lance.conditions import ConditionsIgnored, check_conditions
from lakehand.jobs.lance.datasets import Source
from tests.s3_server import Server, s3_server

pytestmark = pytest.mark.spark
BUCKET = "lake"


class WithoutConditions(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behind = ""

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {key: value for key, value in self.headers.items() if key.lower() != "if-none-match"}
        connection = http.client.HTTPConnection(self.behind)
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        self.send_response(answer.status)
        for key, value in answer.getheaders():
            if key.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_PUT = do_DELETE = forward  # noqa: N815 - as the library calls them

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@contextmanager
def without_conditions(server: Server) -> Iterator[str]:
    handler = type("Bound", (WithoutConditions,), {"behind": urlsplit(server.endpoint).netloc})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_port}"
        proxy.shutdown()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with s3_server() as one:
        one.make_bucket(BUCKET)
        yield one


def source(server: Server, endpoint: str) -> Source:
    return Source(f"s3://{BUCKET}/t", {**server.lance_options(), "aws_endpoint": endpoint})


def test_a_store_that_keeps_conditions_may_be_committed_to(spark: SparkSession, server: Server) -> None:
    job = Job(spark, {})
    check_conditions(job, source(server, server.endpoint))
    assert server.keys(BUCKET) == {}, "the probe leaves nothing"
    phases = len(job.record.lines)
    check_conditions(job, source(server, server.endpoint))
    assert len(job.record.lines) == phases, "tried once per driver"


def test_a_store_that_ignores_conditions_is_named_each_time(spark: SparkSession, server: Server) -> None:
    with without_conditions(server) as endpoint:
        for _ in range(2):
            with pytest.raises(ConditionsIgnored, match=f"{BUCKET} does not keep conditions"):
                check_conditions(Job(spark, {}), source(server, endpoint))
    assert server.keys(BUCKET) == {}


def test_disks_are_not_tried(spark: SparkSession) -> None:
    job = Job(spark, {})
    check_conditions(job, Source("/data/t", {}))
    assert job.record.lines == []
