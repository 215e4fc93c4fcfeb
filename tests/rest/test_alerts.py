# SPDX-License-Identifier: Apache-2.0
"""The routes of alerts, through the real API."""

from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

from lakehand.core.loops.alert_sender import Receiver
from lakehand.domain.alerts import AlertChanges, AlertKind, AlertRules
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from tests.alerters.mailboxes import Mailbox
from tests.rest.parts import items, open_alert, with_receivers, with_security


def test_open_alerts_are_listed_and_resolved_ones_on_request(client: httpx.Client, store: SqlStore) -> None:
    first, second = open_alert(store), open_alert(store, "disk", AlertKind.DISK_FULL)
    now = store.clock.now()
    store.alerts.change(AlertChanges(resolve=[store.alerts.get(first)]), AlertRules(), read_at=now, now=now)

    [alert] = items(client, "/api/v1/alerts")

    assert (alert["id"], alert["kind"], alert["severity"], alert["count"]) == (second, "disk-full", "critical", 1)
    assert [one["id"] for one in items(client, "/api/v1/alerts?state=all")] == [second, first]
    assert client.get("/api/v1/alerts?state=odd").status_code == 422


def test_an_alert_is_silenced_for_a_while_and_the_event_says_by_whom(
    store: SqlStore, context: ApiContext, client_of: Callable[[ApiContext], httpx.Client]
) -> None:
    client = client_of(with_security(context, tokens={"ann": "the-secret-of-ann"}))
    client.headers["Authorization"] = "Bearer the-secret-of-ann"
    number = open_alert(store)

    answer = client.post(f"/api/v1/alerts/{number}/silence", json={"duration": 3600})

    assert answer.status_code == 200, answer.text
    known = store.alerts.get(store.alerts.open_alerts()[0].id)
    assert known.silenced_until is not None
    assert timedelta(minutes=59) < known.silenced_until - store.clock.now() <= timedelta(hours=1)
    [event] = items(client, "/api/v1/events?kind=alert.silenced")
    assert event["detail"]["by"] == "ann"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/v1/alerts/99/silence", {"duration": 60}, 404),
        ("/api/v1/alerts/1/silence", {"duration": 0}, 422),
        ("/api/v1/alerts/1/silence", {"duration": 31 * 86400}, 422),
        ("/api/v1/alerts/1/silence", {}, 422),
        ("/api/v1/alerts/test", {"receiver": "nobody"}, 404),
        ("/api/v1/alerts/test", {"odd": 1}, 422),
    ],
)
def test_what_makes_no_sense_is_refused(client: httpx.Client, path: str, body: dict[str, int], status: int) -> None:
    assert client.post(path, json=body).status_code == status


def test_a_resolved_alert_cannot_be_silenced(client: httpx.Client, store: SqlStore) -> None:
    number, now = open_alert(store), store.clock.now()
    store.alerts.change(AlertChanges(resolve=store.alerts.open_alerts()), AlertRules(), read_at=now, now=now)

    assert client.post(f"/api/v1/alerts/{number}/silence", json={"duration": 60}).status_code == 409


def test_a_test_reports_each_receiver_and_never_its_address(
    store: SqlStore, context: ApiContext, client_of: Callable[[ApiContext], httpx.Client]
) -> None:
    good, bad, stuck = Mailbox(), Mailbox(is_down=True), Mailbox()
    stuck.gate.clear()
    receivers = {
        name: Receiver(name=name, alerter=box, secrets=("https://example.com/hooks/hush-hush",))
        for name, box in {"good": good, "bad": bad, "stuck": stuck}.items()
    }
    client = client_of(with_receivers(context, receivers, test_timeout=0.3))

    answer = client.post("/api/v1/alerts/test", json={})
    stuck.gate.set()

    found = {one["receiver"]: (one["sent"], one["problem"]) for one in answer.json()["items"]}
    assert found["good"] == (True, "")
    assert found["stuck"] == (False, "no answer within 0.3 s")
    assert not found["bad"][0]
    assert "hush" not in answer.text
    assert good.sent == ["test"]
    assert client.post("/api/v1/alerts/test", json={"receiver": "good"}).json()["items"][0]["sent"]


def test_without_a_token_nobody_sees_or_silences_alerts(
    context: ApiContext, client_of: Callable[[ApiContext], httpx.Client]
) -> None:
    client = client_of(with_security(context, tokens={"ann": "the-secret-of-ann"}))

    assert client.get("/api/v1/alerts").status_code == 401
    assert client.post("/api/v1/alerts/1/silence", json={"duration": 60}).status_code == 401
    assert client.post("/api/v1/alerts/test", json={}).status_code == 401
