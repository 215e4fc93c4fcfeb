# SPDX-License-Identifier: Apache-2.0
"""Those who watch are answered, also while the database hangs."""

import logging
import threading
from collections.abc import Callable, Mapping

import httpx
import pytest

import lakehand
from lakehand.domain.operations import InstanceId
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from tests.rest.parts import items, with_security, with_services

ClientOf = Callable[[ApiContext], httpx.Client]


def test_the_service_is_live_and_ready(client: httpx.Client) -> None:
    assert client.get("/health/live").json() == {"status": "ok"}
    assert client.get("/health/ready").json() == {"status": "ready", "parts": {"database": "ok"}}


def test_a_part_that_is_wrong_is_named(context: ApiContext, client_of: ClientOf) -> None:
    answer = client_of(with_services(context, readiness=lambda: {"database": "away", "plugins": "ok"})).get(
        "/health/ready"
    )

    assert answer.status_code == 503
    assert answer.json() == {"status": "not-ready", "parts": {"database": "away", "plugins": "ok"}}


def test_a_check_that_fails_is_not_ready(context: ApiContext, client_of: ClientOf) -> None:
    def fail() -> Mapping[str, str]:
        raise OSError("no database")

    answer = client_of(with_services(context, readiness=fail)).get("/health/ready")

    assert (answer.status_code, answer.json()["parts"]) == (503, {"service": "not ok"})


DETAILS = "cannot reach postgresql://ann@db.internal/lake: password authentication failed for user ann"


def test_without_a_token_readiness_shows_no_details(
    context: ApiContext, client_of: ClientOf, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    wrong = with_services(context, readiness=lambda: {"database": DETAILS, "plugins": "odd: no Java in /opt/java"})

    for one in (wrong, with_security(wrong, tokens={"ana": "sesame-sesame-01"})):
        client = client_of(one)
        for headers in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer wrong"}):
            answer = client.get("/health/ready", headers=headers)
            assert answer.status_code == 503
            assert answer.json()["parts"] == {"database": "away", "plugins": "not ok"}

    assert DETAILS in [record.__dict__.get("parts", {}).get("database") for record in caplog.records]


def test_with_a_token_readiness_shows_what_is_wrong(context: ApiContext, client_of: ClientOf) -> None:
    guarded = with_security(
        with_services(context, readiness=lambda: {"database": DETAILS}), tokens={"ana": "sesame-01"}
    )

    answer = client_of(guarded).get("/health/ready", headers={"Authorization": "Bearer sesame-01"})

    assert answer.json()["parts"] == {"database": DETAILS}


def test_a_check_that_hangs_is_answered_for(context: ApiContext, client_of: ClientOf) -> None:
    hang = threading.Event()

    def wait() -> Mapping[str, str]:
        hang.wait(60)
        return {"database": "ok"}

    client = client_of(with_services(context, readiness=wait))
    try:
        assert client.get("/health/ready").status_code == 503
        assert client.get("/health/live").status_code == 200
    finally:
        hang.set()
    assert client.get("/health/ready").status_code == 200


def test_metrics_are_prometheus_text(client: httpx.Client) -> None:
    answer = client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    assert "# HELP lakehand_requests_total" in answer.text


def test_version_plugins_and_instances_are_shown(client: httpx.Client, store: SqlStore) -> None:
    store.instances.heartbeat(
        InstanceId("here"), host="h", version=lakehand.__version__, detail={}, now=store.clock.now()
    )

    assert client.get("/api/v1/version").json()["version"] == "0.1.0"
    states = {plugin["name"]: (plugin["state"], plugin["reason"]) for plugin in items(client, "/api/v1/plugins")}
    assert states == {"spark": ("on", ""), "odd": ("broken", "no Java")}
    assert [instance["id"] for instance in items(client, "/api/v1/instances")] == ["here"]
