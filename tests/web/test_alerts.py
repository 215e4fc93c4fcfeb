# SPDX-License-Identifier: Apache-2.0
"""The page of alerts, and their number in the menu."""

import httpx

from lakehand.store import SqlStore
from tests.rest.parts import items, open_alert


def test_the_page_lists_open_alerts_and_the_menu_counts_them(client: httpx.Client, store: SqlStore) -> None:
    assert "nothing needs a person" in client.get("/alerts").text
    open_alert(store, "failed:<b>")

    page = client.get("/alerts").text

    assert "failed:&lt;b&gt; failed" in page
    assert '<span class="count" id="open-alerts" data-live>1</span>' in page
    assert '<span class="count" id="open-alerts" data-live>1</span>' in client.get("/tables").text


def test_an_alert_is_silenced_from_its_page(client: httpx.Client, store: SqlStore) -> None:
    number = open_alert(store)

    answer = client.post(f"/alerts/{number}/silence", content="hours=8")

    assert (answer.status_code, answer.headers["location"]) == (303, "/alerts")
    assert "until 2" in client.get("/alerts").text
    assert items(client, "/api/v1/events?kind=alert.silenced")
    assert client.post(f"/alerts/{number}/silence", content="hours=99999").status_code == 422
