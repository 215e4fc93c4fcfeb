# SPDX-License-Identifier: Apache-2.0
"""docs/grpc.md: its examples run, and its tables are complete."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehand.domain.access import Role
from lakehand.rest import ApiContext
from lakehand.rpc.errors import CODES
from lakehand.rpc.generated.tables_pb2 import AddTableRequest
from lakehand.rpc.methods import METHODS
from tests.rest.parts import made_token, with_security
from tests.rpc.parts import bearer, rpc_context, rpc_serving
from tests.rpc.test_grpcurl import find_grpcurl

PAGE = (Path(__file__).parents[2] / "docs" / "grpc.md").read_text(encoding="utf-8")


@pytest.fixture
def environment(api: ApiContext) -> Iterator[dict[str, str]]:
    """A service with the table of the examples."""
    guarded = with_security(api)
    secret = made_token(guarded, "reader", Role.OPERATOR).secret
    with rpc_serving(rpc_context(guarded)) as client:
        request = AddTableRequest(location="/data/trips", action_types=["compaction"])
        client.tables.AddTable(request, metadata=bearer(secret))
        yield {**os.environ, "TOKEN": secret, "ADDRESS": client.server.address}


def example(language: str, having: str, environment: dict[str, str]) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    [found] = [block for block in blocks if having in block]
    return str(found).replace("127.0.0.1:9092", environment["ADDRESS"])


def test_the_python_example_runs(environment: dict[str, str]) -> None:
    program = example("python", "import grpc", environment)

    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert ran.returncode == 0, ran.stderr
    first, watched, failed = ran.stdout.splitlines()
    assert first == "1 trips /data/trips"
    assert watched.startswith("1 ")
    assert failed.startswith("NOT_FOUND not-found ")


@pytest.mark.server
def test_the_grpcurl_example_runs(environment: dict[str, str]) -> None:
    folder = str(Path(find_grpcurl()).parent)
    script = example("sh", "grpcurl", environment)

    ran = subprocess.run(
        ["bash", "-euc", script], env={**environment, "PATH": f"{folder}:{environment['PATH']}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    assert "rpc ListTables" in ran.stdout
    assert '"/data/trips"' in ran.stdout
    assert ran.stdout.count("OPERATION_STATUS_CANCELED") == 2


def test_every_call_is_in_the_table() -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \| ([A-Z]\w+(?:, \w+)*) \|$", PAGE, re.MULTILINE)

    assert {f"{service}.{call}" for service, calls in rows for call in calls.split(", ")} == {
        method.name for method in METHODS.values()
    }


def test_every_code_is_in_the_table_with_its_status() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (`.*?) \|", PAGE, re.MULTILINE)

    documented = {(status, code) for status, codes in rows for code in re.findall(r"`([a-z-]+)`", codes)}
    assert documented == {(status.name, code) for code, status in CODES.items()}
