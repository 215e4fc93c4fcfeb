# SPDX-License-Identifier: Apache-2.0
"""Who may ask, and what the answers to the others look like."""

from collections.abc import Callable

import httpx
import pytest

from lakehand.rest import ApiContext, Security
from tests.rest.parts import add_operation, add_table, items, with_security

TOKENS = {"ana": "sesame-a", "bo": "sesame-b"}


@pytest.fixture
def guarded(context: ApiContext, client_of: Callable[[ApiContext], httpx.Client]) -> httpx.Client:
    return client_of(with_security(context, tokens=TOKENS))


@pytest.mark.parametrize(
    "header", [None, "Bearer", "Bearer wrong", "Basic c2VzYW1lLWE=", "Bearer sesame-", "Bearer \xff"]
)
def test_without_a_valid_token_nothing_is_revealed(guarded: httpx.Client, header: str | None) -> None:
    headers = [] if header is None else [(b"Authorization", header.encode("latin-1"))]

    for path in (
        "/api/v1/tables",
        "/api/v1/operations/1",
        "/api/v1/events",
        "/api/v1/plugins",
        "/api/v1/instances",
        "/api/v1/fleet",
        "/api/v1/openapi.json",
    ):
        answer = guarded.get(path, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_what_watchers_need_is_open(guarded: httpx.Client) -> None:
    for path in ("/health/live", "/health/ready", "/metrics", "/api/v1/version"):
        assert guarded.get(path).status_code == 200


def test_who_did_it_is_the_name_of_the_token(guarded: httpx.Client) -> None:
    guarded.headers["Authorization"] = "Bearer sesame-b"
    add_table(guarded)
    operation = add_operation(guarded)

    guarded.post(f"/api/v1/operations/{operation['id']}/cancel")

    assert operation["origin"] == "bo"
    messages = [event["message"] for event in items(guarded, "/api/v1/events?kind=operation.canceled")]
    assert messages == ["canceled by bo"]
    assert "sesame" not in guarded.get("/api/v1/events").text


def test_security_shows_no_secret_when_printed() -> None:
    security = Security(wire_token="sesame-w", callback_key="sesame-k")

    assert "sesame" not in repr(security)
