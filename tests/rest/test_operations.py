# SPDX-License-Identifier: Apache-2.0
"""Operations over REST."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import httpx
import pytest

from lakehand.api.operations import OperationRequest
from lakehand.domain.access import Caller, Role
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid
from lakehand.domain.operations import Attempt, Handle, InstanceId, OperationId, Status
from lakehand.domain.processes import Json
from lakehand.domain.tables import Format, TableSpec
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from tests.rest.parts import INSTANT, LOCATION, add_operation, add_table, items, kinds, with_security

ITEM = {"id", "table", "instant", "action", "status", "attempts", "created_at", "finished_at", "reason"}
MINUTE = timedelta(minutes=1)


def run_once(store: SqlStore, id: int) -> None:
    """As the dispatcher does it: claim, and store an attempt."""
    now = store.clock.now()
    claimed = store.operations.claim(
        store.operations.get(OperationId(id)), holder=InstanceId("here"), now=now, time_to_live=MINUTE
    )
    assert claimed is not None
    attempt = Attempt(
        operation=OperationId(id), number=1, handle=Handle("op-1"), engine="spark", instance=InstanceId("here"),
        started_at=now,
    )  # fmt: skip
    moved = claimed.moved_to(Status.SUBMITTED, at=now, reason="given to spark")
    store.operations.save(moved, now=now, attempt=attempt)


def test_the_same_plan_asked_for_twice_is_one_operation(client: httpx.Client) -> None:
    add_table(client)
    body = {"location": LOCATION, "action": "compaction", "instant": INSTANT}

    first, second = (client.post("/api/v1/operations", json=body) for _ in range(2))

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]


def test_the_list_has_the_promised_fields(client: httpx.Client) -> None:
    table = add_table(client)
    add_operation(client)

    [item] = items(client, "/api/v1/operations")

    assert set(item) >= ITEM
    assert item["table"] == {key: table[key] for key in ("id", "db_name", "table_name", "location", "format")}
    assert (item["instant"], item["action"], item["status"], item["attempts"]) == (INSTANT, "compaction", "pending", 0)


def test_operations_are_filtered(client: httpx.Client) -> None:
    add_table(client, action_types=["compaction", "clean"])
    add_operation(client)
    clean = add_operation(client, action="clean", instant=None)
    client.post(f"/api/v1/operations/{clean['id']}/cancel")

    def ids(query: str) -> list[int]:
        return [item["id"] for item in items(client, f"/api/v1/operations?{query}")]

    assert ids("action=clean") == ids("status=canceled") == [clean["id"]]
    assert len(ids("status=pending,canceled")) == len(ids(f"location={LOCATION}")) == 2
    assert ids("location=/data/nowhere") == ids("status=failed") == []


def test_pages_follow_each_other_newest_first(client: httpx.Client) -> None:
    add_table(client)
    made = [add_operation(client, instant=f"2026111419101398{digit}")["id"] for digit in range(3)]

    first = client.get("/api/v1/operations", params={"limit": 2}).json()
    rest = client.get("/api/v1/operations", params={"limit": 2, "cursor": first["next"]}).json()

    assert [item["id"] for item in first["items"] + rest["items"]] == made[::-1]
    assert rest["next"] is None


def test_one_operation_is_shown_with_attempts_and_events(client: httpx.Client, store: SqlStore) -> None:
    add_table(client)
    operation = add_operation(client)
    run_once(store, operation["id"])

    shown = client.get(f"/api/v1/operations/{operation['id']}").json()

    assert shown["status"] == "submitted"
    assert [attempt["handle"] for attempt in shown["attempt_list"]] == ["op-1"]
    assert set(shown) >= ITEM | {"progress", "result", "failure", "next_try", "events", "parameters"}


def test_logs_are_read_from_an_offset(client: httpx.Client, store: SqlStore) -> None:
    add_table(client)
    operation = add_operation(client)
    path = f"/api/v1/operations/{operation['id']}/logs"
    assert client.get(path).status_code == 404
    run_once(store, operation["id"])

    whole = client.get(path).json()
    rest = client.get(path, params={"attempt": 1, "offset": 4}).json()

    assert whole["text"] == "log of op-1\n"
    assert rest["text"] == "of op-1\n"
    assert rest["next_offset"] == whole["next_offset"] == len(whole["text"])


def test_cancel_retry_and_remove(client: httpx.Client) -> None:
    add_table(client)
    path = f"/api/v1/operations/{add_operation(client)['id']}"

    assert client.post(f"{path}/retry").status_code == 409
    assert client.post(f"{path}/cancel").json()["status"] == "canceled"
    assert client.post(f"{path}/retry").json()["status"] == "pending"
    assert client.delete(path).json()["is_deleted"] is True
    assert kinds(client) >= {"operation.canceled", "operation.reopened", "operation.removed"}


def test_a_running_operation_is_flagged_for_its_holder(client: httpx.Client, store: SqlStore) -> None:
    add_table(client)
    operation = add_operation(client)
    run_once(store, operation["id"])

    answer = client.post(f"/api/v1/operations/{operation['id']}/cancel").json()

    assert answer["cancel_requested"] is True


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"action": "clean"}, 409),
        ({"action": "explode"}, 404),
        ({"action": "no such thing!"}, 422),
        ({"instant": "tomorrow"}, 422),
        ({"instant": "2026"}, 422),
        ({"instant": "29991231235959999"}, 422),
        ({"instant": "٢٠٢٦١١١٤١٩١٠١٣"}, 422),
        ({"location": "/data/nowhere"}, 404),
        ({"location": None}, 422),
        ({"location": None, "table": 2**63}, 422),
        ({"location": None, "table": 2**63 - 1}, 404),
        ({"options": {"spark.executor.memory": "100g"}}, 422),
        ({"options": {"hoodie.compaction.payload.class": "evil.Payload"}}, 422),
        ({"options": {"hoodie.compaction.target.io": "1'; DROP TABLE x"}}, 422),
    ],
)
def test_an_operation_that_makes_no_sense_is_refused(
    client: httpx.Client, wrong: dict[str, object], status: int
) -> None:
    add_table(client)
    body = {"location": LOCATION, "action": "compaction", "instant": INSTANT, **wrong}

    answer = client.post("/api/v1/operations", json=body)

    assert answer.status_code == status, answer.text
    assert items(client, "/api/v1/operations") == []


def test_options_from_the_allow_list_are_kept(client: httpx.Client) -> None:
    add_table(client)

    operation = add_operation(client, options={"hoodie.compaction.target.io": "512"})

    shown = client.get(f"/api/v1/operations/{operation['id']}").json()
    assert shown["parameters"]["options"] == {"hoodie.compaction.target.io": "512"}


@pytest.mark.parametrize(
    "query",
    ["cursor=rubbish", "status=odd", "action=!", "limit=0", "limit=1001", "table=-1", "location=%00", "owner=%0A"],
)
def test_filters_that_make_no_sense_are_refused(client: httpx.Client, query: str) -> None:
    assert client.get(f"/api/v1/operations?{query}").status_code == 422


@pytest.mark.parametrize("id", ["0", "-1", "9223372036854775808", "9" * 5000, "x", "1.5", "%00"])
def test_an_id_that_is_none_is_refused(client: httpx.Client, id: str) -> None:
    for path in ("/api/v1/operations", "/api/v1/tables"):
        assert client.get(f"{path}/{id}").status_code in (404, 422)


def show(client: httpx.Client, id: int) -> dict[str, Any]:
    detail: dict[str, Any] = client.get(f"/api/v1/operations/{id}").json()
    return detail


def test_a_dry_run_is_stored_as_such(client: httpx.Client) -> None:
    add_table(client, action_types=["clean"])

    operation = show(client, add_operation(client, action="clean", instant=None, dry_run=True)["id"])

    assert operation["parameters"]["dry_run"] is True
    assert "a dry run of clean" in operation["events"][0]["message"]


def test_a_dry_run_of_what_has_none_is_refused_with_those_that_have(client: httpx.Client) -> None:
    add_table(client)
    body = {"location": LOCATION, "action": "compaction", "dry_run": True}

    answer = client.post("/api/v1/operations", json=body)

    assert answer.status_code == 422
    assert "compaction has no dry run" in answer.json()["error"]["message"]
    assert "clean" in answer.json()["error"]["message"]


def test_whoever_confirms_is_recorded(client_of: Callable[[ApiContext], httpx.Client], context: ApiContext) -> None:
    client = client_of(with_security(context, tokens={"ann": "secret"}))
    client.headers["Authorization"] = "Bearer secret"
    add_table(client, action_types=["clean"])

    operation = show(client, add_operation(client, action="clean", instant=None, confirm=True)["id"])

    assert operation["parameters"]["confirm"] is True
    assert (operation["events"][0]["kind"], operation["events"][0]["detail"]) == ("operation.confirmed", {"by": "ann"})


def test_how_rows_are_compared_is_stored_and_only_in_known_words(client: httpx.Client) -> None:
    add_table(client, action_types=["clean"])
    operation = show(client, add_operation(client, action="clean", instant=None, verify_rows="count")["id"])
    body = {"location": LOCATION, "action": "clean", "verify_rows": "perhaps"}

    assert operation["parameters"]["verify_rows"] == "count"
    assert client.post("/api/v1/operations", json=body).status_code == 422


@pytest.mark.parametrize("word", ["dry_run", "confirm", "mode", "location", "before", "verify_rows"])
def test_options_arrive_among_options_whatever_they_are_called(client: httpx.Client, word: str) -> None:
    add_table(client)

    operation = show(client, add_operation(client, options={word: "true"}, instant=None)["id"])

    assert operation["parameters"] == {"options": {word: "true"}, "mode": "plan-and-execute"}


def test_a_dry_run_needs_no_confirmation(client: httpx.Client) -> None:
    add_table(client, action_types=["clean"])
    body = {"location": LOCATION, "action": "clean", "dry_run": True, "confirm": True}

    assert client.post("/api/v1/operations", json=body).status_code == 422


@pytest.mark.parametrize(
    "options",
    [
        {"rewrite.class": "evil.Rewriter"},
        {"password": "x"},
        {"iceberg.target": "1; DROP TABLE x"},
        {"iceberg.target": "x" * 201},
        {"hadoop.fs": "x"},
    ],
)
def test_options_of_no_format_load_code_or_hide_statements(client: httpx.Client, options: dict[str, str]) -> None:
    add_table(client)
    body = {"location": LOCATION, "action": "compaction", "options": options}

    assert client.post("/api/v1/operations", json=body).status_code == 422


def test_confirming_an_operation_stored_without_confirm_conflicts(client: httpx.Client) -> None:
    add_table(client, action_types=["clean"])
    add_operation(client, action="clean")

    answer = client.post(
        "/api/v1/operations", json={"location": LOCATION, "action": "clean", "instant": INSTANT, "confirm": True}
    )

    assert answer.status_code == 409
    assert "without confirm" in answer.json()["error"]["message"]


def test_reserved_keys_among_parameters_are_stripped(context: ApiContext) -> None:
    spec = TableSpec(location=LOCATION, format=Format("hudi"), action_types=frozenset({Action("clean")}))
    table, _ = context.tables.register(spec)
    reserved: Mapping[str, Json] = {"confirm": True, "dry_run": True, "mode": "execute"}

    operation, _ = context.operations.add(table, OperationRequest(action="clean"), reserved, by="wire")

    assert operation.process.parameters == {"mode": "plan-and-execute"}


@pytest.mark.parametrize("wrong", [{"table": None}, {"instant": "1"}, {"options": {"hoodie.base.path": "x"}}])
def test_the_rules_of_a_request_hold_for_every_interface(context: ApiContext, wrong: dict[str, Any]) -> None:
    spec = TableSpec(location=LOCATION, format=Format("hudi"), action_types=frozenset({Action("compaction")}))
    table, _ = context.tables.register(spec)
    given: dict[str, Any] = {"table": table.id, "action": "compaction", **wrong}

    with pytest.raises(Invalid):
        context.operations.submit(Caller(name="ann", role=Role.OPERATOR), OperationRequest(**given))

    assert context.operations.of_table(table.id) == []
