# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document is whole, and no request that it allows makes the service fail."""

import http.client
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from lakehand.rest import ApiContext
from tests.rest.parts import LOCATION, add_operation, add_table, with_security

EXAMPLES = 15
ADMIN = {"Authorization": "Bearer sesame-sesame-01"}
CALM = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def document(client: httpx.Client) -> dict[str, Any]:
    loaded: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    return loaded


def test_every_operation_says_what_it_is_for(client: httpx.Client) -> None:
    operations = [op for methods in document(client)["paths"].values() for op in methods.values()]

    assert len(operations) >= 25
    assert all(operation["summary"] and operation["tags"] for operation in operations)


def test_requests_have_examples(client: httpx.Client) -> None:
    schemas = document(client)["components"]["schemas"]

    for name in ("NewTable", "ChangedTable", "OperationRequest", "SubmitRequest", "RegisterRequest"):
        assert schemas[name]["examples"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_no_request_makes_the_service_fail(
    context: ApiContext, client_of: Callable[[ApiContext], httpx.Client]
) -> None:
    """As an admin: some requests make tokens, and from the first one on the service asks for one."""
    import schemathesis  # takes longer than most tests
    from schemathesis import GenerationMode
    from schemathesis.config import SchemathesisConfig
    from schemathesis.core.result import Ok

    client = client_of(with_security(context, tokens={"ann": "sesame-sesame-01"}))
    client.headers.update(ADMIN)
    add_table(client, action_types=["compaction", "clean"])
    add_operation(client)
    schema = schemathesis.openapi.from_url(
        f"{client.base_url}/api/v1/openapi.json".replace("//api", "/api"),
        headers=ADMIN,
        config=SchemathesisConfig(),
    )
    failures: list[str] = []
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) >= 25
    for operation in sorted(operations, key=lambda op: op.method == "delete"):  # what is there stays for the others
        bombard(operation, GenerationMode.POSITIVE, failures)
        bombard(operation, GenerationMode.NEGATIVE, failures)

    assert failures == []
    assert client.get("/api/v1/tables", params={"location": LOCATION}).status_code == 200
    assert client.get("/api/v1/tokens").json()["items"]


def bombard(operation: Any, mode: Any, failures: list[str]) -> None:
    @CALM
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        try:
            answer = case.call(headers=ADMIN)
        except (ValueError, http.client.InvalidURL):  # the client itself refuses to send this
            return
        if answer.status_code >= 500:
            failures.append(f"{operation.label}: {answer.status_code} for {case.as_curl_command()}")

    with suppress(Unsatisfiable):  # nothing about it can be wrong
        ask()


def test_what_a_client_library_would_not_send_is_refused_too(context: ApiContext, client: httpx.Client) -> None:
    for target in (
        "/api/v1/tables/%00",
        "/api/v1/tables?owner=%00",
        "/api/v1/events?kind=%ff%fe",
        "/api/v1/tables/%F0%9F",
    ):
        assert client.get(target).status_code in (200, 404, 422)
