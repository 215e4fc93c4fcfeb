# SPDX-License-Identifier: Apache-2.0
"""RFC-43's JSON endpoints."""

from collections.abc import Callable

import httpx
import pytest

from lakehand.domain.access import Role
from lakehand.rest import ApiContext
from lakehand.rest.wire_requests import wanted_engine
from tests.rest.parts import INSTANT, LOCATION, add_table, items, made_token, wire, with_engines, with_security

PREFIX = "/v1/hoodie/service"
RFC = {
    "db_name": "sales", "table_name": "trips", "owner": "default", "queue": "root.default", "instant": INSTANT,
    "resource": "4g:4g", "parallelism": "1000", "execution_engine": "Spark", "extra_params": "",
}  # fmt: skip


def post(client: httpx.Client, path: str, body: object) -> httpx.Response:
    return client.post(PREFIX + path, json=body)


@pytest.mark.parametrize(
    ("service", "action"), [("compact", "compaction"), ("cluster", "clustering"), ("clean", "clean")]
)
def test_a_plan_is_submitted_by_the_name_of_its_table(client: httpx.Client, service: str, action: str) -> None:
    add_table(client, db_name="sales", action_types=[action])

    first, second = (post(client, f"/{service}/submit", RFC) for _ in range(2))

    assert (first.status_code, second.status_code) == (200, 200)
    [operation] = items(client, "/api/v1/operations")
    assert (operation["action"], operation["instant"]) == (action, INSTANT)
    parameters = client.get(f"/api/v1/operations/{operation['id']}").json()["parameters"]
    assert parameters == {"resource": "4g:4g", "parallelism": "1000", "options": {}}


def test_a_submission_with_a_base_path_registers_the_table_for_its_action(client: httpx.Client) -> None:
    answer = post(client, "/cluster/submit", RFC | {"base_path": LOCATION})

    assert answer.status_code == 200, answer.text
    [table] = items(client, "/api/v1/tables")
    assert (table["action_types"], table["queue"], table["db_name"]) == (["clustering"], "root.default", "sales")


def test_a_plan_is_removed(client: httpx.Client) -> None:
    add_table(client, db_name="sales")
    post(client, "/compact/submit", RFC)
    body = {"db_name": "sales", "table_name": "trips", "instant": INSTANT}

    removed, again = (post(client, "/compact/remove", body) for _ in range(2))

    assert (removed.status_code, again.status_code) == (200, 200)
    assert (removed.json()["is_deleted"], removed.json()["status"]) == (True, "canceled")
    assert post(client, "/compact/remove", body | {"instant": "20200101000000"}).status_code == 404


def test_a_plan_that_has_ended_is_removed(client: httpx.Client) -> None:
    add_table(client, db_name="sales")
    post(client, "/compact/submit", RFC)
    client.post("/api/v1/operations/1/cancel")

    removed = post(client, "/compact/remove", RFC).json()

    assert (removed["is_deleted"], removed["status"]) == (True, "canceled")
    assert client.get("/api/v1/operations/1").json()["is_deleted"] is True


def test_the_path_may_say_hudi(client: httpx.Client) -> None:
    add_table(client, db_name="sales")

    submitted = client.post("/v1/hudi/service/compact/submit", json=RFC)
    sent = client.get(wire().replace("/v1/hoodie/", "/v1/hudi/"))
    removed = client.post("/v1/hudi/service/compact/remove", json=RFC)

    assert [one.status_code for one in (submitted, sent, removed)] == [200, 200, 200]
    assert (sent.json()["stored"], removed.json()["is_deleted"]) == (True, True)
    assert client.get("/v1/hudi/service/nothing").json()["stored"] is False


def test_a_plan_of_another_action_is_neither_submitted_nor_removed(client: httpx.Client) -> None:
    add_table(client, db_name="sales", action_types=["compaction", "clustering"])
    post(client, "/compact/submit", RFC)

    submitted, removed = (post(client, f"/cluster/{verb}", RFC) for verb in ("submit", "remove"))

    assert (submitted.status_code, removed.status_code) == (409, 404)
    for answer in (submitted, removed):
        assert "operation 1 (compaction, pending)" in answer.json()["error"]["message"]
    [operation] = items(client, "/api/v1/operations")
    assert (operation["status"], operation["is_deleted"]) == ("pending", False)


@pytest.mark.parametrize("actions", ["", " , ", []])
def test_a_table_for_which_nothing_is_wanted_is_not_registered(client: httpx.Client, actions: object) -> None:
    answer = post(client, "/register", {"base_path": LOCATION, "action_types": actions})

    assert answer.status_code == 422, answer.text
    assert "action_types" in answer.text
    assert items(client, "/api/v1/tables") == []


def test_a_table_is_registered(client: httpx.Client) -> None:
    body = {"db_name": "sales", "table_name": "trips", "base_path": LOCATION, "action_types": "compact,clean"}

    first, second = (post(client, "/register", body) for _ in range(2))

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["action_types"] == ["clean", "compaction"]


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"table_name": "nobody"}, 404),
        ({"table_name": ""}, 422),
        ({"instant": ""}, 422),
        ({"instant": "tomorrow"}, 422),
        ({"instant": "29991231235959"}, 422),
        ({"resource": "lots"}, 422),
        ({"resource": "4g:4g; rm -rf /"}, 422),
        ({"parallelism": "-1"}, 422),
        ({"parallelism": 10**30}, 422),
        ({"execution_engine": "Flink"}, 422),
        ({"extra_params": "spark.jars=/tmp/evil.jar"}, 422),
        ({"extra_params": "hoodie.compaction.target.io=1' OR '1"}, 422),
        ({"base_path": "/elsewhere/trips", "table_name": "other"}, 422),
        ({"base_path": "/data/../etc"}, 422),
        ({"db_name": 7}, 422),
        ({"owner": "a\x00b"}, 422),
    ],
)
def test_bad_input_is_answered_with_what_is_wrong(client: httpx.Client, wrong: dict[str, object], status: int) -> None:
    add_table(client, db_name="sales")

    answer = post(client, "/compact/submit", RFC | wrong)

    assert answer.status_code == status, answer.text
    assert set(answer.json()["error"]) == {"code", "message"}
    assert items(client, "/api/v1/operations") == []


def test_unknown_services_and_bodies_are_refused(client: httpx.Client) -> None:
    assert post(client, "/explode/submit", RFC).status_code == 422
    assert client.post(f"{PREFIX}/compact/submit", content=b"{").status_code == 422
    assert client.post(f"{PREFIX}/compact/submit", content=b"[" * 1_900).status_code in (400, 422)
    assert post(client, "/compact", RFC).status_code in (404, 405)


def test_writers_need_the_token_of_the_wire_or_of_the_api(
    context: ApiContext, client_of: Callable[[ApiContext], httpx.Client]
) -> None:
    client = client_of(with_security(context, wire_token="open", tokens={"ci": "sesame"}))
    body = {"base_path": LOCATION}

    assert post(client, "/register", body).status_code == 401
    assert post(client, "/register?token=guess", body).status_code == 401
    assert post(client, "/register?token=open", body).status_code == 201
    allowed = client.post(f"{PREFIX}/register", json=body, headers={"Authorization": "Bearer sesame"})
    assert allowed.status_code == 200


def test_no_writer_names_further_places_whose_files_may_be_deleted(client: httpx.Client) -> None:
    body = {"table_name": "trips", "base_path": LOCATION, "properties": {"extra-locations": "/lake/others"}}
    answer = post(client, "/register", body)
    assert answer.status_code == 422
    assert "extra-locations" in answer.json()["error"]["message"]
    assert items(client, "/api/v1/tables") == []


@pytest.mark.parametrize("retries", [True, False])
def test_whether_a_failed_attempt_is_repeated_is_taken_from_the_request(client: httpx.Client, retries: bool) -> None:
    add_table(client, db_name="sales")

    post(client, "/compact/submit", RFC | {"retry_on_error": retries})

    [operation] = items(client, "/api/v1/operations")
    assert operation["retry_on_error"] is retries


@pytest.mark.parametrize(
    ("said", "stored"), [("spark-submit", "spark-submit"), ("Spark-Submit", "spark-submit"), ("Spark", "spark")]
)
def test_the_engine_that_is_asked_for_is_stored(
    context: ApiContext, client_of: Callable[[ApiContext], httpx.Client], said: str, stored: str
) -> None:
    client = client_of(with_engines(context, "spark", "spark-submit"))
    add_table(client, db_name="sales")

    answer = post(client, "/compact/submit", RFC | {"execution_engine": said})

    assert [one["engine"] for one in answer.json()["operations"]] == [stored]


def test_spark_is_each_of_our_engines_and_any_other_name_is_one_of_them() -> None:
    assert [wanted_engine(name) for name in ("", "Spark", "spark", "spark-submit")] == [
        None,
        None,
        None,
        "spark-submit",
    ]


def test_owner_and_queue_are_the_operations_own(client: httpx.Client) -> None:
    add_table(client, db_name="sales", owner="bob", queue="slow")

    post(client, "/compact/submit", RFC | {"owner": "carol", "queue": "vip"})
    post(client, "/compact/submit", RFC | {"owner": "default", "queue": "", "instant": "20261114191013983"})

    found = [(one["owner"], one["queue"]) for one in items(client, "/api/v1/operations")]
    assert found == [("bob", "slow"), ("carol", "vip")]


def test_a_token_of_one_owner_gives_no_operation_to_another(client: httpx.Client, context: ApiContext) -> None:
    add_table(client, db_name="sales", owner="ann")
    client.headers["Authorization"] = f"Bearer {made_token(context, 'of-ann', Role.OPERATOR, owner='ann').secret}"

    assert post(client, "/compact/submit", RFC | {"owner": "bob"}).status_code == 403
    assert post(client, "/compact/submit", RFC | {"owner": "ann"}).status_code == 200


CHANGED: list[dict[str, object]] = [
    {"resource": "8g:4g"}, {"parallelism": "7"}, {"extra_params": "hoodie.compaction.target.io=512"},
]  # fmt: skip


@pytest.mark.parametrize("changed", CHANGED)
def test_a_repeat_changes_what_waits(client: httpx.Client, changed: dict[str, object]) -> None:
    add_table(client, db_name="sales")
    post(client, "/compact/submit", RFC)

    assert post(client, "/compact/submit", RFC | changed).status_code == 200

    parameters = client.get("/api/v1/operations/1").json()["parameters"]
    now_is = {"resource": parameters["resource"], "parallelism": parameters["parallelism"]}
    now_is["extra_params"] = ";".join(f"{key}={value}" for key, value in parameters["options"].items())
    before = {name: RFC[name] for name in now_is}
    assert now_is == before | changed


@pytest.mark.parametrize("changed", CHANGED)
def test_a_repeat_that_comes_too_late_is_refused(client: httpx.Client, changed: dict[str, object]) -> None:
    add_table(client, db_name="sales")
    post(client, "/compact/submit", RFC)
    client.post("/api/v1/operations/1/cancel")

    assert post(client, "/compact/submit", RFC).status_code == 200
    refused = post(client, "/compact/submit", RFC | changed)

    assert refused.status_code == 409
    assert "operation 1" in refused.json()["error"]["message"]
