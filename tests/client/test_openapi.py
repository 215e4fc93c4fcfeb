# SPDX-License-Identifier: Apache-2.0
"""Holds the client to the API's own description: every route, parameter and body, and the class of every answer."""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from inspect import signature
from itertools import islice
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from lakehand.client import LakehandClient, StillRunning
from lakehand.client.answers import OURS, bound
from lakehand.client.clients import Groups
from lakehand.client.groups import Call, Group, Listing
from lakehand.client.outcomes import NO_RETRIES, Outcome
from lakehand.client.steps import Request
from tests.test_docs import described

# A value for each argument of any call; filters and bodies with all of them show what a call can send.
SAMPLES: dict[str, Any] = {
    "accept_empty": True, "action": "clean", "action_types": ["clean"], "after": None, "alert": 1, "attempt": 1,
    "catalog": "lake", "confirm": True, "db_name": "db", "dry_run": True, "duration": 60, "follow": False,
    "format": "hudi", "heartbeat_timeout": 60, "hours": 2, "instant": "20261114191013982", "kind": "table.", "limit": 5,
    "location": "/data/t", "name": "lake", "offset": 9, "operation": 1, "options": {"a": "b"}, "outage": 1.0,
    "owner": "ann", "paused": False, "poll": 0.1, "priority": 1, "properties": {"a": "b"}, "queue": "q",
    "caller": "ann", "role": "viewer", "life": 60, "token": 1, "receiver": "ops", "engine": "spark",
    "removed": True, "scheduling": "writer", "search": "t", "since": "2026-11-15T19:10:13Z",
    "state": "open", "status": "failed", "table": "lake:db.t", "table_name": "t", "timeout": 0.0,
    "retry_on_error": False, "resource": "4g:4g", "parallelism": 7, "verify_rows": "count", "version": "42",
    "partitions": ["day=1"], "commits": ["/data/t"], "instants": ["20261114191013982"],
}  # fmt: skip
# What the API takes, and no call sends: pages are read on by themselves, and a table is named by one argument.
# Commit events have parameters for senders that are not ours, and their data has more fields than people give.
NAMES = ("location", "db_name", "table_name")
NOT_SENT = {("query", "cursor"), ("POST /api/v1/operations", "location"), ("/api/v1/operations/{id}/logs", "limit")}
NOT_SENT |= {(f"POST /api/v1/plans{end}", name) for end in ("", "/remove") for name in NAMES}
NOT_SENT |= {("/api/v1/commits", name) for name in ("token", "catalog", "actions")}
NO_RUNNER: Any = None


@cache
def calls() -> dict[str, Callable[..., Any]]:
    """Every method of a client, by the name that people write."""
    kinds = {name: type(one) for name, one in vars(Groups(NO_RUNNER)).items() if isinstance(one, Group)}
    found = {f"{name}.{key}": one for name, kind in kinds.items() for key, one in vars(kind).items()}
    found |= vars(Groups)
    return {name: one.make for name, one in found.items() if isinstance(one, Call | Listing) and name != "request"}


def sample(hint: Any) -> Any:
    """A document of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None
    if origin is Literal or is_word(hint):
        return arguments[0] if arguments else next(iter(hint))
    if is_dataclass(origin or hint):
        return {name: sample(inner) for name, inner in typed_fields(hint).items()}
    if origin in (list, dict):
        return [sample(arguments[0])] if origin is list else {}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint)).value
    return "2026-11-15T19:10:13.982Z" if hint is datetime else hint()


def is_word(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def typed_fields(hint: Any) -> dict[str, Any]:
    kind: Any = get_origin(hint) or hint
    chosen = dict(zip(getattr(kind, "__parameters__", ()), get_args(hint), strict=False))
    hints = get_type_hints(kind)
    return {one.name: bound(hints[one.name], chosen) for one in fields(kind) if one.name not in OURS}


def sent(make: Callable[..., Any], **samples: Any) -> list[Request[Any]]:
    """The requests of a call, with a document of the expected type as the answer to each."""
    steps = make(**{name: samples[name] for name in signature(make).parameters})
    return list(islice(driven(steps), 5))


def driven(steps: Any) -> Iterator[Request[Any]]:
    answer: Any = None
    try:
        while True:
            step = steps.send(answer)
            answer = None
            if isinstance(step, Request):
                yield step
                body = json.dumps(sample(step.answer)).encode()
                answer = Outcome(url="http://service", retries=NO_RETRIES, status=200, body=body)
    except (StopIteration, StillRunning):  # what it waits for never ends here
        return


def own_requests() -> dict[tuple[str, str], Request[Any]]:
    """Of all calls by route; where several calls send one, that with the most parameters."""
    tables: list[dict[str, Any]] = [{}, {"table": 1}]  # by its text, and by its id
    every = [one for make in calls().values() for table in tables for one in sent(make, **SAMPLES | table)]
    ordered = sorted(every, key=lambda one: len(one.parameters) + len(one.body or {}))
    return {(one.method, one.route): one for one in ordered}


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    return described()


def test_every_route_of_the_api_is_reached_by_a_call_and_every_call_reaches_one(api: dict[str, Any]) -> None:
    served = {(method.upper(), path) for path, methods in api["paths"].items() for method in methods}

    assert set(own_requests()) == {(method, path) for method, path in served if path.startswith("/api/v1/")}
    assert len(calls()) > 30


def test_every_parameter_and_every_field_of_a_body_can_be_given(api: dict[str, Any]) -> None:
    for (method, route), request in own_requests().items():
        operation = api["paths"][route][method.lower()]
        taken = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
        not_sent = {name for where, name in NOT_SENT if where in ("query", route)}
        assert set(request.parameters) == taken - not_sent, route

        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        known = set(resolved(without_null(body)[0], api).get("properties", {}))
        not_sent = {name for where, name in NOT_SENT if where == f"{method} {route}"}
        if route != "/api/v1/commits":  # any shape of event
            assert set(request.body or {}) == known - not_sent, route


def test_every_answer_is_of_the_class_that_the_api_describes(api: dict[str, Any]) -> None:
    for (method, route), request in own_requests().items():
        answers = api["paths"][route][method.lower()]["responses"]
        schema = next(answers[code] for code in ("200", "201", "202") if code in answers)["content"]["application/json"]
        names = [one.__name__ for one in (get_origin(request.answer), *get_args(request.answer)) if one]
        name = f"{'_'.join(names)}_" if names else request.answer.__name__
        assert schema["schema"] == {"$ref": f"#/components/schemas/{name}"}, route


def without_null(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    options = schema.get("anyOf", [schema])
    kept = [one for one in options if one.get("type") != "null"]
    assert len(kept) == 1, schema
    return kept[0], len(kept) < len(options)


def resolved(schema: dict[str, Any], api: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = api["components"]["schemas"][name] if name else schema
    return found


def test_the_description_is_the_one_that_a_running_service_gives(client: LakehandClient, api: dict[str, Any]) -> None:
    running = client.request("GET", "/api/v1/openapi.json")

    assert running["paths"] == json.loads(json.dumps(api["paths"]))
    assert running["components"] == json.loads(json.dumps(api["components"]))
