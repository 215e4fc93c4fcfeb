# SPDX-License-Identifier: Apache-2.0
"""Commit events: a table's schedules are due once its event is answered; what is wrong is said in the answer."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from lakehand.rest import ApiContext
from lakehand.rest.commits.cloud_events import COMMITTED
from lakehand.store import SqlStore
from tests.rest.parts import LOCATION, add_table, context_over, items, kinds, with_security

ClientOf = Callable[[ApiContext], httpx.Client]
PATH = "/api/v1/commits"
WIRE = "sesame-sesame-03"


def event(id: str = "1", **data: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "type": COMMITTED, "source": "job", "id": id, "data": data or {"location": LOCATION}}


def send(client: httpx.Client, body: Any, path: str = PATH, **headers: str) -> dict[str, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(path, content=content, headers={"Content-Type": "application/json", **headers})
    assert answer.status_code == 202, answer.text
    counts: dict[str, Any] = answer.json()
    return counts


def due(store: SqlStore) -> int:
    """How many schedules somebody has made due since the last evaluation."""
    query = "SELECT sum(wakes) FROM schedule"
    return int(store.database.read(lambda tx: tx.exec_driver_sql(query).scalar()) or 0)


def test_an_event_makes_the_schedules_of_its_table_due(store: SqlStore, client: httpx.Client) -> None:
    add_table(client)
    before = due(store)

    counts = send(client, event())

    assert (counts["stored"], counts["tables"], counts["reasons"]) == (1, 1, [])
    assert due(store) == before + 1
    assert items(client, "/api/v1/tables")[0]["notified_at"] is not None
