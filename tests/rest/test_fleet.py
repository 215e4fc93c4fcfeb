# SPDX-License-Identifier: Apache-2.0
"""The fleet over REST, and tables by their state."""

from typing import Any

import httpx
import pytest
from sqlalchemy import update

from lakehand.domain.fleet import TableState
from lakehand.domain.tables import TableId
from lakehand.store import SqlStore
from lakehand.store.clock import to_millis
from lakehand.store.schema import tbl
from tests.rest.parts import add_operation, add_table, items


def show(client: httpx.Client, **parameters: Any) -> dict[str, Any]:
    answer = client.get("/api/v1/fleet", params=parameters)
    assert answer.status_code == 200, answer.text
    fleet: dict[str, Any] = answer.json()
    return fleet


def lose(store: SqlStore, table: dict[str, Any]) -> None:
    """As a table is stored that cannot be read."""
    values = {"problem": "access denied. Ask", "problem_time": to_millis(store.clock.now()), "small_files": 3}
    one = tbl.c.id == TableId(table["id"])
    store.database.write(lambda tx: tx.execute(update(tbl).where(one).values(values)))


def test_an_empty_service_has_an_empty_fleet(client: httpx.Client) -> None:
    fleet = show(client)

    assert fleet["states"] == {str(state): 0 for state in TableState}
    assert fleet["needs_person"] == {"items": [], "total": 0}
    assert (fleet["done"]["operations"], fleet["done"]["success_rate"], fleet["queues"]) == (0, None, [])


def test_the_fleet_says_what_needs_a_person_and_what_was_done(client: httpx.Client, store: SqlStore) -> None:
    add_table(client)
    clicks = add_table(client, location="/data/clicks")
    lose(store, clicks)
    operation = add_operation(client)
    waiting = show(client)
    client.post(f"/api/v1/operations/{operation['id']}/cancel")

    fleet = show(client)

    assert waiting["queues"][0]["waiting"] == 1
    assert (waiting["states"]["needs-work"], waiting["states"]["unreadable"]) == (1, 1)
    assert (fleet["totals"]["tables"], fleet["totals"]["small_files"]) == (2, 3)
    [problem] = fleet["needs_person"]["items"]
    assert (problem["table"]["id"], problem["state"], problem["operation"]) == (clicks["id"], "unreadable", None)
    assert (problem["reason"], problem["since"][-1]) == ("access denied", "Z")
    assert (fleet["done"]["operations"], fleet["done"]["mean_run_seconds"]) == (1, None)


def test_the_list_of_problems_is_as_long_as_wanted(client: httpx.Client, store: SqlStore) -> None:
    for number in range(3):
        lose(store, add_table(client, location=f"/data/t{number}"))

    problems = show(client, limit=2)["needs_person"]

    assert (len(problems["items"]), problems["total"]) == (2, 3)


@pytest.mark.parametrize("wrong", [{"hours": 0}, {"hours": 10**9}, {"limit": 0}, {"limit": "many"}])
def test_senseless_bounds_are_refused(client: httpx.Client, wrong: dict[str, Any]) -> None:
    assert client.get("/api/v1/fleet", params=wrong).status_code == 422


def test_tables_are_listed_by_state_and_by_a_part_of_their_name(client: httpx.Client, store: SqlStore) -> None:
    add_table(client)
    lose(store, add_table(client, location="/data/clicks"))

    def names(query: str) -> list[str]:
        return [table["table_name"] for table in items(client, f"/api/v1/tables?{query}")]

    assert names("state=unreadable") == ["clicks"]
    assert names("state=new") == ["trips"]
    assert names("search=TRIP") == ["trips"]
    assert names("search=TRIP&state=unreadable") == []
    assert client.get("/api/v1/tables?state=splendid").status_code == 422
