# SPDX-License-Identifier: Apache-2.0
"""Everything that changes something says in an event who asked for it; wrong tokens leave an event, too."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from tests.kit.polling import wait_for
from tests.rest.parts import (
    INSTANT,
    LOCATION,
    Listed,
    add_operation,
    add_table,
    context_over,
    items,
    open_alert,
    wire,
    with_security,
)
from tests.test_docs import described

ClientOf = Callable[[ApiContext], httpx.Client]
TOKENS = {"ana": "sesame-sesame-01", "bo": "sesame-sesame-02"}
BO = {"Authorization": "Bearer sesame-sesame-02"}
PLAN = {"location": LOCATION, "action": "compaction"}
NAMED = {"table_name": "trips", "instant": INSTANT}
# Every route that changes something: what is sent, and the kind of the event that says who sent it.
CHANGES: dict[tuple[str, str], tuple[dict[str, Any], str]] = {
    ("POST", "/api/v1/tables"): ({"location": "/data/new"}, "table.registered"),
    ("PATCH", "/api/v1/tables/{id}"): ({"priority": 5}, "table.changed"),
    ("DELETE", "/api/v1/tables/{id}"): ({}, "table.removed"),
    ("POST", "/api/v1/tables/{id}/pause"): ({}, "table.changed"),
    ("POST", "/api/v1/tables/{id}/resume"): ({}, "table.changed"),
    ("POST", "/api/v1/tables/{id}/evaluate"): ({}, "table.evaluate"),
    ("POST", "/api/v1/tables/{id}/clear"): ({}, "operation.cleared"),
    ("POST", "/api/v1/operations"): ({"location": LOCATION, "action": "compaction"}, "operation.stored"),
    ("PATCH", "/api/v1/operations/{id}"): ({"queue": "vip"}, "operation.changed"),
    ("POST", "/api/v1/operations/{id}/cancel"): ({}, "operation.canceled"),
    ("POST", "/api/v1/operations/{id}/retry"): ({}, "operation.reopened"),
    ("DELETE", "/api/v1/operations/{id}"): ({}, "operation.removed"),
    ("POST", "/api/v1/plans"): ({**PLAN, "instants": ["20261114191013999"]}, "operation.stored"),
    ("POST", "/api/v1/plans/remove"): ({**PLAN, "instant": INSTANT}, "operation.removed"),
    ("POST", "/api/v1/catalogs/{name}/sync"): ({}, "table.registered"),
    ("POST", "/api/v1/alerts/{id}/silence"): ({"duration": 60}, "alert.silenced"),
    ("POST", "/api/v1/alerts/test"): ({}, "alert.tested"),
    ("POST", "/api/v1/drain"): ({"timeout": 60}, "instance.draining"),
    ("DELETE", "/api/v1/drain"): ({}, "instance.serving"),
    ("POST", "/api/v1/tokens"): ({"name": "new", "role": "viewer"}, "token.created"),
    ("DELETE", "/api/v1/tokens/{id}"): ({}, "token.revoked"),
    ("POST", "/v1/hoodie/service/register"): ({"base_path": "/data/new"}, "table.registered"),
    ("POST", "/v1/hoodie/service/{service}/submit"): ({**NAMED, "instant": "20261114191013999"}, "operation.stored"),
    ("POST", "/v1/hoodie/service/{service}/remove"): (NAMED, "operation.removed"),
}

# Hints of machines, thousands in a second: they change no table, and nobody asked for anything.
HINTS = {("POST", "/api/v1/commits")}


def routes_that_change() -> set[tuple[str, str]]:
    paths: dict[str, dict[str, Any]] = described()["paths"]
    return {(verb.upper(), path) for path, verbs in paths.items() for verb in verbs if verb not in ("get", "head")}


def test_every_route_that_changes_something_is_held_to_it() -> None:
    assert routes_that_change() == set(CHANGES) | HINTS


# A service that has a token knows nobody without one.
WHO = [(name, *route) for route in CHANGES for name in ("bo", "anonymous") if name == "bo" or "/tokens" not in route[1]]


@pytest.mark.parametrize(("name", "method", "path"), WHO)
def test_an_event_says_who_did_it(store: SqlStore, client_of: ClientOf, method: str, path: str, name: str) -> None:
    body, kind = CHANGES[method, path]
    context = context_over(store, listed=Listed(["orders"]))
    client = client_of(with_security(context, tokens=TOKENS) if name == "bo" else context)
    client.headers["Authorization"] = "Bearer sesame-sesame-01"
    table = add_table(client, table_name="trips")
    operation = add_operation(client)
    if path.endswith("/retry"):
        client.post(f"/api/v1/operations/{operation['id']}/cancel")
    alert = open_alert(store)
    if "/tokens/" in path:
        client.post("/api/v1/tokens", json={"name": "old", "role": "viewer"})
    before = {event["id"] for event in items(client, "/api/v1/events")}

    wanted = operation["id"] if "operations" in path else alert if "alerts" in path else table["id"]
    address = path.replace("{id}", str(wanted)).replace("{name}", "lake").replace("{service}", "compact")
    answer = client.request(method, address, json=body, headers=BO)

    assert answer.is_success, answer.text
    new = [event for event in items(client, "/api/v1/events") if event["id"] not in before]
    assert (kind, name) in {(event["kind"], event["detail"].get("by")) for event in new}
    assert all(name in event["message"] for event in new if event["kind"] == kind)
    assert "sesame" not in str(new)


def test_the_writers_token_is_named_writer(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(with_security(context, wire_token="sesame-sesame-03"))

    client.post("/v1/hoodie/service/register?token=sesame-sesame-03", json={"base_path": LOCATION})

    [event] = items(client, "/api/v1/events?kind=table.registered")
    assert event["detail"] == {"by": "writer"}


def test_a_table_that_the_wire_or_a_callback_registers_says_so(client: httpx.Client) -> None:
    client.get(wire())
    client.post("/v1/hoodie/service/callback?actions=clean", json={"basePath": "/data/other", "tableName": "other"})

    events = items(client, "/api/v1/events?kind=table.registered")
    assert {(event["table"] is not None, event["detail"]["by"]) for event in events} == {
        (True, "wire"), (True, "callback"),
    }  # fmt: skip
    client.get(wire())
    assert len(items(client, "/api/v1/events?kind=table.registered")) == 2


def test_wrong_tokens_leave_one_event_with_a_count(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(with_security(context, tokens=TOKENS))
    for attempt in range(5):
        client.get("/api/v1/tables/7", headers={"Authorization": f"Bearer guess-sesame-{attempt}"})
    client.delete("/api/v1/tables/7")
    client.post("/api/v1/commits?token=guess-sesame", json={})

    client.headers["Authorization"] = "Bearer sesame-sesame-01"
    found = eventually(lambda: items(client, "/api/v1/events?kind=api.unauthorized"), count=3)

    assert {(event["detail"]["route"], event["detail"]["address"], event["times"]) for event in found} == {
        ("GET /api/v1/tables/{id}", "127.0.0.1", 5), ("DELETE /api/v1/tables/{id}", "127.0.0.1", 1),
        ("POST /api/v1/commits", "127.0.0.1", 1),
    }  # fmt: skip
    assert "sesame" not in str(found)


def test_wrong_tokens_of_writers_leave_an_event_with_the_address(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(with_security(context, wire_token="sesame-sesame-03"))

    for token in ("guess-sesame-1", "guess-sesame-2"):
        assert client.get(wire(token=token)).json()["stored"] is False

    [event] = items(client, "/api/v1/events?kind=wire.unauthorized")
    assert event["times"] == 2
    assert "'compact'" in event["message"]
    assert "from 127.0.0.1" in event["message"]
    assert "sesame" not in str(event)


def eventually(find: Callable[[], list[dict[str, Any]]], *, count: int) -> list[dict[str, Any]]:
    return wait_for(lambda: found if len(found := find()) >= count else None, f"{count} events", 30, pace=0.02)
