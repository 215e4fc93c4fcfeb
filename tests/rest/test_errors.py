# SPDX-License-Identifier: Apache-2.0
"""Every failing request is answered in one shape, and bodies have a bound."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest

from lakehand.api.operations import ExplanationAnswer
from lakehand.core.services.explain import Explainer
from lakehand.domain.errors import PluginBroken, Unavailable
from lakehand.domain.tables import TableId
from lakehand.rest import ApiContext
from tests.rest.parts import with_security, with_services

ClientOf = Callable[[ApiContext], httpx.Client]


@dataclass(frozen=True, kw_only=True)
class Failing(Explainer):
    error: Exception

    def explain(self, id: TableId) -> ExplanationAnswer:
        raise self.error


def failing(context: ApiContext, error: Exception) -> ApiContext:
    known = context.services.explainer
    return with_services(
        context, explainer=Failing(store=known.store, plugins=known.plugins, waits=known.waits, error=error)
    )


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Unavailable("the database is away"), 503, "unavailable"),
        (PluginBroken("odd does not answer"), 500, "plugin-broken"),
        (RuntimeError("inside: secret"), 500, "error"),
    ],
)
def test_errors_have_one_shape(
    context: ApiContext, client_of: ClientOf, error: Exception, status: int, code: str
) -> None:
    answer = client_of(failing(context, error)).get("/api/v1/tables/1/explain")

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert "secret" not in answer.text


def test_unknown_paths_and_methods_are_answered_in_the_same_shape(client: httpx.Client) -> None:
    for answer, status, code in (
        (client.get("/nowhere"), 404, "not-found"),
        (client.put("/api/v1/tables"), 405, "method-not-allowed"),
        (client.get("/api/v1/tables/7"), 404, "not-found"),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_body_over_the_bound_is_refused_however_it_is_sent(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(with_security(context, max_body=2000))

    def pieces() -> Iterator[bytes]:
        yield from [b"x" * 1000] * 5

    for content in (b"x" * 5000, pieces()):
        answer = client.post("/api/v1/tables", content=content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too-large")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff", b"[]", b"[" * 1_900, b'{"location": ' + b"9" * 6000 + b"}", b'{"location":"\\ud800"}',
        b'{"\\ud800":1}', b'{"location": 1e999}', b'{"location":"/data/a","properties":{"\\ud800":"1"}}',
        b'{"location":"/data/a","action_types":["\\udfff"]}',
    ],
)  # fmt: skip
def test_odd_bodies_are_refused(client: httpx.Client, content: bytes) -> None:
    answer = client.post("/api/v1/tables", content=content)

    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]["message"]


def test_requests_are_counted_by_route_and_never_by_path(client: httpx.Client) -> None:
    for path in ("/api/v1/tables/1", "/api/v1/tables/2", "/nowhere/1", "/v1/hoodie/service/odd1"):
        client.get(path)

    text = client.get("/metrics").text
    assert 'lakehand_requests_total{method="GET",route="/api/v1/tables/{id}",status="404"} 2.0' in text
    assert 'route="unmatched"' in text
    assert 'route="/v1/hoodie/service/{unknown}"' in text
    assert "odd1" not in text
    assert "/nowhere" not in text
