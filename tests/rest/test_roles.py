# SPDX-License-Identifier: Apache-2.0
"""Every route and method of the API × every kind of caller, from the API's own list."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx
import pytest

from lakehand.api.operations import OperationRequest
from lakehand.core.ports import AuditFilter
from lakehand.domain.access import Role
from lakehand.domain.actions import Action
from lakehand.domain.locations import EXTRA_LOCATIONS
from lakehand.domain.tables import TableSpec
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from tests.rest.parts import HUDI, Listed, context_over, made_token, open_alert, serving, with_security
from tests.test_docs import described

OPEN, VIEWER, OPERATOR, EVERYTHING, ADMIN = "open", "viewer", "operator", "operator of everything", "admin"
INSTANT = "20261114191013982"
COMPACTION = Action("compaction")
WRITERS = "/v1/hoodie/service"
# What each route needs. A route that is not here fails the first test.
NEEDS: dict[tuple[str, str], str] = {
    ("GET", "/health/live"): OPEN,
    ("GET", "/health/ready"): OPEN,
    ("GET", "/metrics"): OPEN,
    ("GET", "/api/v1/version"): OPEN,
    ("GET", "/api/v1/caller"): VIEWER,
    ("GET", "/api/v1/tables"): VIEWER,
    ("GET", "/api/v1/tables/find"): VIEWER,
    ("GET", "/api/v1/tables/{id}"): VIEWER,
    ("GET", "/api/v1/tables/{id}/explain"): VIEWER,
    ("GET", "/api/v1/tables/{id}/health"): VIEWER,
    ("GET", "/api/v1/tables/{id}/settings"): VIEWER,
    ("GET", "/api/v1/operations"): VIEWER,
    ("GET", "/api/v1/operations/{id}"): VIEWER,
    ("GET", "/api/v1/operations/{id}/logs"): VIEWER,
    ("GET", "/api/v1/catalogs"): VIEWER,
    ("GET", "/api/v1/alerts"): VIEWER,
    ("GET", "/api/v1/events"): VIEWER,
    ("GET", "/api/v1/fleet"): VIEWER,
    ("GET", "/api/v1/plugins"): VIEWER,
    ("GET", "/api/v1/instances"): VIEWER,
    ("GET", "/api/v1/drain"): VIEWER,
    ("POST", "/api/v1/drain"): EVERYTHING,
    ("DELETE", "/api/v1/drain"): EVERYTHING,
    ("POST", "/api/v1/tables"): OPERATOR,
    ("PATCH", "/api/v1/tables/{id}"): OPERATOR,
    ("DELETE", "/api/v1/tables/{id}"): OPERATOR,
    ("POST", "/api/v1/tables/{id}/pause"): OPERATOR,
    ("POST", "/api/v1/tables/{id}/resume"): OPERATOR,
    ("POST", "/api/v1/tables/{id}/evaluate"): OPERATOR,
    ("POST", "/api/v1/tables/{id}/clear"): OPERATOR,
    ("POST", "/api/v1/operations"): OPERATOR,
    ("POST", "/api/v1/operations/{id}/cancel"): OPERATOR,
    ("PATCH", "/api/v1/operations/{id}"): OPERATOR,
    ("POST", "/api/v1/operations/{id}/retry"): OPERATOR,
    ("DELETE", "/api/v1/operations/{id}"): OPERATOR,
    ("POST", "/api/v1/alerts/{id}/silence"): OPERATOR,
    ("POST", f"{WRITERS}/register"): OPERATOR,
    ("POST", f"{WRITERS}/{{service}}/submit"): OPERATOR,
    ("POST", f"{WRITERS}/{{service}}/remove"): OPERATOR,
    ("POST", "/api/v1/catalogs/{name}/sync"): EVERYTHING,
    ("POST", "/api/v1/plans"): OPERATOR,
    ("POST", "/api/v1/plans/remove"): OPERATOR,
    ("POST", "/api/v1/commits"): EVERYTHING,
    ("POST", "/api/v1/alerts/test"): EVERYTHING,
    ("GET", "/api/v1/audit"): "operator of any owner",
    ("GET", "/api/v1/tokens"): ADMIN,
    ("POST", "/api/v1/tokens"): ADMIN,
    ("DELETE", "/api/v1/tokens/{id}"): ADMIN,
}
ALLOWED = {
    OPEN: {"nobody", "viewer", "operator", "own", "other", "admin"},
    VIEWER: {"viewer", "operator", "own", "other", "admin"},
    OPERATOR: {"operator", "own", "admin"},
    EVERYTHING: {"operator", "admin"},
    "operator of any owner": {"operator", "own", "other", "admin"},
    ADMIN: {"admin"},
}
CALLERS: dict[str, tuple[Role, str] | None] = {
    "nobody": None,
    "viewer": (Role.VIEWER, ""),
    "operator": (Role.OPERATOR, ""),
    "own": (Role.OPERATOR, "ann"),  # a token for the tables of ann, which all tables here are
    "other": (Role.OPERATOR, "web"),
    "admin": (Role.ADMIN, ""),
}
NUMBERS = count(1)


@dataclass(frozen=True)
class Guarded:
    """A service with a token for each kind of caller."""

    client: httpx.Client
    context: ApiContext
    store: SqlStore
    secrets: dict[str, str]

    def send(self, caller: str, method: str, path: str, body: dict[str, Any]) -> httpx.Response:
        secret = self.secrets.get(caller)
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        return self.client.request(method, path, headers=headers, json=body if method != "GET" else None)


@pytest.fixture
def guarded(store: SqlStore) -> Iterator[Guarded]:
    context = with_security(context_over(store, listed=Listed([])))
    secrets = {name: made_token(context, name, kind[0], owner=kind[1]).secret for name, kind in CALLERS.items() if kind}
    with serving(context) as client:
        yield Guarded(client, context, store, secrets)


def address_and_body(guarded: Guarded, method: str, path: str) -> tuple[str, dict[str, Any]]:
    """The route with something real to act upon, made for this request."""
    number = next(NUMBERS)
    location = f"/data/t{number}"
    context = guarded.context
    spec = TableSpec(location=location, format=HUDI, owner="ann", action_types=frozenset({COMPACTION}))
    table, _ = context.services.tables.register(spec)
    operation, _ = context.services.operations.add(
        table, OperationRequest(action=COMPACTION, instant=INSTANT), by="ann"
    )
    if path.endswith("/retry"):
        context.services.operations.end(operation.id, by="ann")
    number_of = {
        "operations": operation.id,
        "alerts": open_alert(guarded.store, f"failed:{number}") if "alerts" in path else 0,
        "tokens": made_token(context, f"n{number}", Role.VIEWER).id if "tokens" in path else 0,
    }.get(path.split("/")[3] if path.startswith("/api") else "", table.id)  # fmt: skip
    address = path.replace("{id}", str(number_of)).replace("{name}", "lake").replace("{service}", "compact")
    if path.endswith("/find"):
        address += f"?name=t{number}"
    return address, body_of(method, path, location, number)


def body_of(method: str, path: str, location: str, number: int) -> dict[str, Any]:
    bodies: dict[tuple[str, str], dict[str, Any]] = {
        ("POST", "/api/v1/tables"): {"location": f"{location}-new", "owner": "ann", "action_types": ["compaction"]},
        ("PATCH", "/api/v1/tables/{id}"): {"priority": 3},
        ("PATCH", "/api/v1/operations/{id}"): {"priority": 3},
        ("POST", "/api/v1/operations"): {"location": location, "action": "compaction"},
        ("POST", "/api/v1/alerts/{id}/silence"): {"duration": 60},
        ("POST", "/api/v1/commits"): {
            "specversion": "1.0",
            "type": "dev.lakehand.table.committed",
            "source": "job",
            "id": str(number),
            "data": {"location": location},
        },
        ("POST", "/api/v1/plans"): {"location": location, "action": "compaction", "instants": ["20261114191013999"]},
        ("POST", "/api/v1/plans/remove"): {"location": location, "action": "compaction", "instant": INSTANT},
        ("POST", "/api/v1/tokens"): {"name": f"made{number}", "role": "viewer"},
        ("POST", f"{WRITERS}/register"): {"base_path": f"{location}-new", "owner": "ann"},
        ("POST", f"{WRITERS}/{{service}}/submit"): {"base_path": location, "instant": "20261114191013999"},
        ("POST", f"{WRITERS}/{{service}}/remove"): {"base_path": location, "instant": INSTANT},
    }
    return bodies.get((method, path), {})


def routes() -> set[tuple[str, str]]:
    paths: dict[str, dict[str, Any]] = described()["paths"]
    return {(verb.upper(), path) for path, verbs in paths.items() for verb in verbs}


def test_every_route_of_the_api_is_in_the_table() -> None:
    assert routes() == set(NEEDS)


@pytest.mark.parametrize(("method", "path"), list(NEEDS))
def test_a_caller_may_do_what_its_role_and_owner_allow(guarded: Guarded, method: str, path: str) -> None:
    answers = {caller: answer_to(guarded, caller, method, path) for caller in CALLERS}

    refused = {caller: "401 unauthorized" if caller == "nobody" else "403 forbidden" for caller in CALLERS}
    assert answers == refused | dict.fromkeys(ALLOWED[NEEDS[method, path]], "allowed")


def answer_to(guarded: Guarded, caller: str, method: str, path: str) -> str:
    address, body = address_and_body(guarded, method, path)
    before = seen(guarded)

    answer = guarded.send(caller, method, address, body)

    no_attempt = path.endswith("/logs") and answer.status_code == 404  # the caller was let in
    if answer.status_code in (200, 201, 202) or no_attempt:
        return "allowed"
    assert seen(guarded) == before, f"what {caller} was refused has changed something"
    return f"{answer.status_code} {answer.json()['error']['code']}"


def seen(guarded: Guarded) -> Any:
    """Everything that a request could have changed."""
    store = guarded.store

    def rows(*tables: str) -> Any:
        return store.database.read(lambda tx: [tx.exec_driver_sql(f"SELECT * FROM {name}").all() for name in tables])

    used = [token.revoked_at for _, token in store.tokens.list()]
    return rows("tbl", "operation", "alert"), used


@pytest.mark.parametrize("caller", ["viewer", "other"])
def test_a_refusal_is_in_the_audit_trail(guarded: Guarded, caller: str) -> None:
    address, body = address_and_body(guarded, "POST", "/api/v1/tables/{id}/pause")

    guarded.send(caller, "POST", address, body)

    [entry] = guarded.store.audit.list(AuditFilter(caller=caller, action="table.pause"), limit=1, cursor=None).items
    assert entry.answer is not None
    assert entry.answer.code == "forbidden"
    assert entry.request.caller.address == "127.0.0.1"


def test_a_token_of_an_owner_gives_no_table_away_and_takes_none(guarded: Guarded) -> None:
    address, _ = address_and_body(guarded, "PATCH", "/api/v1/tables/{id}")

    assert guarded.send("own", "PATCH", address, {"owner": "web"}).status_code == 403
    assert guarded.send("other", "PATCH", address, {"owner": "web"}).status_code == 403
    assert guarded.send("own", "POST", "/api/v1/tables", {"location": "/data/w", "owner": "web"}).status_code == 403


@pytest.mark.parametrize("caller", ["own", "operator"])
def test_a_token_of_an_owner_cannot_widen_what_is_deleted(guarded: Guarded, caller: str) -> None:
    """Extra locations may be the folders of somebody else's tables."""
    address, _ = address_and_body(guarded, "PATCH", "/api/v1/tables/{id}")
    wider = {"properties": {EXTRA_LOCATIONS: "/data/elsewhere"}}

    changed = guarded.send(caller, "PATCH", address, wider)
    added = guarded.send(caller, "POST", "/api/v1/tables", {"location": f"/data/x/{caller}", "owner": "ann", **wider})

    assert (changed.status_code, added.status_code) == ((403, 403) if caller == "own" else (200, 201))
