# SPDX-License-Identifier: Apache-2.0
"""GET /api/v1/tables/{id}/health: the points of a table, and the operations that ended meanwhile."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from lakehand.domain.health import HealthPoint
from lakehand.domain.tables import TableId
from lakehand.store import SqlStore
from tests.rest.parts import add_operation, add_table

HOUR = timedelta(hours=1)
NUMBERS = {"files": 12, "small_files": 7, "bytes": 5000, "small_bytes": 90}


def path(table: int) -> str:
    return f"/api/v1/tables/{table}/health"


@pytest.fixture
def table(client: httpx.Client) -> int:
    return int(add_table(client)["id"])


def put(store: SqlStore, table: int, hours_ago: int, **numbers: Any) -> str:
    at = store.clock.now() - hours_ago * HOUR
    store.probes.finish({}, {}, health={TableId(table): HealthPoint(at=at, numbers=numbers)}, now=at)
    return at.isoformat()


def test_a_table_without_points_has_an_empty_history(client: httpx.Client, table: int) -> None:
    history = client.get(path(table)).json()

    assert (history["points"], history["operations"], history["table"]["id"]) == ([], [], table)
    assert client.get(f"/api/v1/tables/{table}").json()["health"] is None


def test_points_come_oldest_first_and_since_leaves_out_older_ones(
    client: httpx.Client, table: int, store: SqlStore
) -> None:
    put(store, table, 5, files=3)
    between = put(store, table, 3, files=4)
    put(store, table, 1, **NUMBERS)

    points = client.get(path(table)).json()["points"]
    assert [point["numbers"]["files"] for point in points] == [3, 4, 12]
    assert points[-1]["numbers"] == NUMBERS
    later = client.get(path(table), params={"since": between}).json()["points"]
    assert later == points[1:] or later == points[2:], "databases keep milliseconds"
    shown = client.get(f"/api/v1/tables/{table}").json()
    assert shown["health"] == points[-1]


def test_operations_that_ended_are_there(client: httpx.Client, table: int, store: SqlStore) -> None:
    put(store, table, 1, files=3)
    operation = add_operation(client)
    assert client.get(path(table)).json()["operations"] == []
    client.post(f"/api/v1/operations/{operation['id']}/cancel")

    [ended] = client.get(path(table)).json()["operations"]

    assert (ended["id"], ended["action"], ended["status"], ended["result"]) == (
        operation["id"], "compaction", "canceled", {},
    )  # fmt: skip
    assert ended["finished_at"].endswith("Z")


def test_a_table_that_cannot_be_read_says_so(client: httpx.Client, table: int, store: SqlStore) -> None:
    now = store.clock.now()
    store.probes.finish({TableId(table): now}, {}, problems={TableId(table): "no such bucket"}, now=now)

    shown = client.get(path(table)).json()["table"]

    assert shown["problem"] == "no such bucket"
    assert shown["problem_since"].endswith("Z")


def test_the_history_of_a_removed_table_stays_readable(client: httpx.Client, table: int, store: SqlStore) -> None:
    put(store, table, 1, files=3)
    client.delete(f"/api/v1/tables/{table}")

    assert len(client.get(path(table)).json()["points"]) == 1


@pytest.mark.parametrize("since", ["yesterday", "2026-11-15T10:00:00", "", "2026-99-15T10:00:00Z"])
def test_a_time_that_is_none_is_refused(client: httpx.Client, table: int, since: str) -> None:
    assert client.get(path(table), params={"since": since}).status_code == 422


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_the_first_and_the_last_time_are_fine(client: httpx.Client, table: int, since: str) -> None:
    assert client.get(path(table), params={"since": since}).status_code == 200


def test_an_unknown_table_is_not_found(client: httpx.Client) -> None:
    assert client.get(path(77)).status_code == 404
