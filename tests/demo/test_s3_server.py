# SPDX-License-Identifier: Apache-2.0
"""The S3 server of the demo and of other tests: of many that create one object at once, one succeeds."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakehand.demo.s3_server import in_turn
from tests.s3_server import Server, s3_server

ROUNDS, RIVALS = 10, 8


@pytest.mark.parametrize(
    ("request_of", "is_alone"),
    [
        ({"REQUEST_METHOD": "PUT", "HTTP_IF_NONE_MATCH": "*"}, True),
        ({"REQUEST_METHOD": "PUT", "HTTP_IF_MATCH": '"tag"'}, True),
        ({"REQUEST_METHOD": "PUT"}, False),
        ({"REQUEST_METHOD": "GET", "HTTP_IF_NONE_MATCH": '"tag"'}, False),
    ],
)
def test_a_conditional_put_is_carried_out_alone(request_of: Mapping[str, str], is_alone: bool) -> None:
    lock = Lock()

    def answer(_application: Any, _environ: Any, _start_response: Any) -> bool:
        return lock.locked()

    assert in_turn(answer, lock)(None, request_of, None) is is_alone
    assert not lock.locked()


@pytest.mark.server
def test_of_many_conditional_puts_of_one_key_one_succeeds() -> None:
    with s3_server() as server, ThreadPoolExecutor(RIVALS) as pool:
        server.make_bucket("lake")
        rounds = [list(pool.map(puts, [server] * RIVALS, [str(number)] * RIVALS)) for number in range(ROUNDS)]

    assert [sum(outcomes) for outcomes in rounds] == [1] * ROUNDS


def puts(server: Server, key: str) -> bool:
    try:
        server.client.put_object(Bucket="lake", Key=key, Body=b"x" * 1000, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
        return False
    return True
