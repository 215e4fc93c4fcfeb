# SPDX-License-Identifier: Apache-2.0
"""A client that is not ours: grpcurl knows nothing of our .proto files but what reflection tells it."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakehand.domain.access import Role
from lakehand.rest import ApiContext
from lakehand.rpc.methods import METHODS, SERVICES
from tests.rest.parts import made_token, with_security
from tests.rpc.parts import rpc_context, rpc_serving

pytestmark = pytest.mark.server
HINT = "grpcurl is missing: go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.8.9"
TIMEOUT = 60.0  # seconds


def find_grpcurl() -> str:
    """A missing one is a visible skip on a developer's machine and a failure where all must be tested."""
    found = shutil.which("grpcurl") or shutil.which("grpcurl", path=str(Path.home() / "go" / "bin"))
    if found is not None:
        return found
    if os.environ.get("CI") == "true":
        pytest.fail(HINT)
    pytest.skip(HINT)


@dataclass(frozen=True)
class Grpcurl:
    program: str
    address: str
    secrets: dict[str, str]

    def command(self, who: str, *words: str, **fields: Any) -> list[str]:
        token = ["-H", f"authorization: Bearer {self.secrets[who]}"] if who else []
        return [self.program, "-plaintext", *token, "-d", json.dumps(fields), self.address, *words]

    def run(self, who: str, rpc: str, **fields: Any) -> Any:
        ran = self.attempt(who, rpc, **fields)
        assert ran.returncode == 0, ran.stderr
        return snake_case(json.loads(ran.stdout))

    def attempt(self, who: str, rpc: str, **fields: Any) -> "subprocess.CompletedProcess[str]":
        command = self.command(who, f"lakehand.v1.{rpc}", **fields)
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)


def snake_case(value: Any) -> Any:
    """With the names of the .proto files: versions of grpcurl differ in how they write them."""
    if isinstance(value, list):
        return [snake_case(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"(?=[A-Z])", "_", key).lower(): snake_case(one) for key, one in value.items()}


@pytest.fixture
def grpcurl(api: ApiContext) -> Iterator[Grpcurl]:
    program, guarded = find_grpcurl(), with_security(api)
    secrets = {role: made_token(guarded, role, Role(role)).secret for role in ("viewer", "operator")}
    with rpc_serving(rpc_context(guarded)) as client:
        yield Grpcurl(program, client.server.address, secrets)


def add_operation(grpcurl: Grpcurl) -> tuple[str, str]:
    """The ids of a table and of its operation; 64-bit numbers are texts in JSON."""
    table = grpcurl.run("operator", "Tables/AddTable", location="/data/trips", action_types=["compaction"])["table"]
    submitted = grpcurl.run("operator", "Operations/SubmitOperation", table=table["id"], action="compaction")
    assert submitted["is_new"] is True
    return table["id"], submitted["operation"]["id"]


def test_it_learns_all_services_and_calls_by_reflection(grpcurl: Grpcurl) -> None:
    def ask(*words: str) -> set[str]:
        command = [grpcurl.program, "-plaintext", grpcurl.address, *words]
        return set(subprocess.check_output(command, text=True, timeout=TIMEOUT).split())

    assert {*SERVICES, "grpc.health.v1.Health"} <= ask("list")
    calls = set().union(*(ask("list", service) for service in SERVICES))
    assert calls == {method.path[1:].replace("/", ".") for method in METHODS.values()}
    health = [grpcurl.program, "-plaintext", grpcurl.address, "grpc.health.v1.Health/Check"]
    assert "SERVING" in subprocess.check_output(health, text=True, timeout=TIMEOUT)


def test_it_lists_tables(grpcurl: Grpcurl) -> None:
    table, _ = add_operation(grpcurl)

    [listed] = grpcurl.run("viewer", "Tables/ListTables")["tables"]

    assert (listed["id"], listed["location"], listed["heartbeat_timeout"]) == (table, "/data/trips", "600s")


def test_it_watches_an_operation_until_it_is_canceled(grpcurl: Grpcurl) -> None:
    _, operation = add_operation(grpcurl)
    command = grpcurl.command("viewer", "lakehand.v1.Operations/WatchOperations", id=operation)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        first = read_message(watch.stdout)

        canceled = grpcurl.run("operator", "Operations/CancelOperation", id=operation)["operation"]

        last = read_message(watch.stdout)
        assert watch.wait(TIMEOUT) == 0  # the stream ends by itself
    assert first["operation"]["status"] == "OPERATION_STATUS_PENDING"
    assert last["operation"]["status"] == canceled["status"] == "OPERATION_STATUS_CANCELED"


def read_message(lines: Iterator[str]) -> Any:
    """One message of a stream: it ends with a brace at the beginning of a line."""
    text = ""
    for line in lines:
        text += line
        if line.startswith("}"):
            return snake_case(json.loads(text))
    raise AssertionError(f"the stream ended with {text!r}")


@pytest.mark.parametrize(
    ("who", "rpc", "fields", "expected"),
    [
        ("", "Tables/ListTables", {}, ("Unauthenticated", "UNAUTHORIZED")),
        ("viewer", "Tables/AddTable", {"location": "/data/t"}, ("PermissionDenied", "FORBIDDEN")),
        ("viewer", "Tables/GetTable", {"id": 99}, ("NotFound", "NOT_FOUND")),
        ("operator", "Tables/AddTable", {"location": "/elsewhere/t"}, ("InvalidArgument", "LOCATION_REFUSED")),
        ("operator", "Operations/RetryOperation", {"id": 1}, ("FailedPrecondition", "ILLEGAL_STEP")),
    ],
)
def test_it_shows_errors_with_their_details(
    grpcurl: Grpcurl, who: str, rpc: str, fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    add_operation(grpcurl)

    ran = grpcurl.attempt(who, rpc, **fields)

    assert ran.returncode != 0
    code, reason = expected
    shown = "".join(ran.stderr.split())
    assert f"Code:{code}" in shown
    assert '"domain":"lakehand"' in shown
    assert f'"reason":"{reason}"' in shown
