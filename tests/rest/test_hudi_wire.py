# SPDX-License-Identifier: Apache-2.0
"""The wire of Hudi's client and its commit callback: always 200, and what was wrong is an event."""

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import httpx
import pytest

from lakehand.core.intake.notifications import Intake, Receipt
from lakehand.domain.errors import Unavailable
from lakehand.domain.notifications import Notification, RefusedNotification
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from tests.hudi_client import Recording, recordings
from tests.kit.polling import wait_for
from tests.rest.parts import (
    INSTANT,
    LOCATION,
    add_operation,
    add_table,
    context_over,
    items,
    kinds,
    wire,
    with_engines,
    with_security,
)

CALLBACK = "/v1/hoodie/service/callback"
ClientOf = Callable[[ApiContext], httpx.Client]
COMMIT = {"commitTime": INSTANT, "tableName": "trips", "basePath": LOCATION}


def send(client: httpx.Client, address: str) -> dict[str, object]:
    """Ask as a writer does, and get what harms no writer."""
    return read(client.get(address))


def posted(client: httpx.Client, body: object, address: str = CALLBACK) -> dict[str, object]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read(client.post(address, content=content))


def read(answer: httpx.Response) -> dict[str, object]:
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    body: dict[str, object] = answer.json()
    assert len(answer.content) < 1000
    return body


def test_the_first_request_registers_the_table_for_compaction_alone(client: httpx.Client) -> None:
    assert send(client, wire())["stored"] is True

    [table] = items(client, "/api/v1/tables")
    assert (table["location"], table["action_types"], table["table_name"]) == (LOCATION, ["compaction"], "trips")
    [operation] = items(client, "/api/v1/operations")
    assert (operation["instant"], operation["action"], operation["status"]) == (INSTANT, "compaction", "pending")


def test_the_same_request_a_thousand_times_is_one_operation(client: httpx.Client) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: send(client, wire()), range(1000)))

    assert all(answer["stored"] for answer in answers)
    assert len(items(client, "/api/v1/operations")) == 1


def test_a_plan_of_another_action_is_an_event_and_the_writer_goes_on(client: httpx.Client) -> None:
    add_table(client, action_types=["compaction", "clustering"])
    send(client, wire())

    assert send(client, wire("cluster"))["stored"] is True

    [operation] = items(client, "/api/v1/operations")
    assert operation["action"] == "compaction"
    [event] = items(client, "/api/v1/events?kind=intake.other-action")
    assert (event["table"], event["times"]) == (1, 1)


def test_a_list_of_instants_is_an_operation_each(client: httpx.Client) -> None:
    send(client, wire(instant=f"{INSTANT},20261114191013983"))

    assert len(items(client, "/api/v1/operations")) == 2


def test_a_request_without_instants_only_wakes(client: httpx.Client) -> None:
    assert send(client, wire(instant=""))["stored"] is True

    assert items(client, "/api/v1/operations") == []


def test_resource_and_parallelism_are_kept(client: httpx.Client) -> None:
    send(client, wire(resource="8g:4g", parallelism="7"))

    [operation] = items(client, "/api/v1/operations")
    parameters = client.get(f"/api/v1/operations/{operation['id']}").json()["parameters"]
    assert parameters == {"resource": "8g:4g", "parallelism": "7", "options": {}}


def test_the_engine_that_the_writer_asks_for_is_stored(client_of: ClientOf, context: ApiContext) -> None:
    client = client_of(with_engines(context, "spark", "spark-submit"))

    for number, engine in enumerate(("spark-submit", "spark", "flink")):
        assert send(client, wire(execution_engine=engine, instant=f"2026111419101398{number}"))["stored"] is True

    newest_first = [one["engine"] for one in items(client, "/api/v1/operations")]
    assert newest_first == ["spark", "spark", "spark-submit"]
    assert "wire.unknown-engine" in kinds(client)


def test_owner_and_queue_of_the_writer_are_the_operations_own(client: httpx.Client) -> None:
    add_table(client, owner="bob", queue="slow")

    send(client, wire(username="carol", queue="vip"))
    send(client, wire(instant="20261114191013983"))

    found = [(one["owner"], one["queue"]) for one in items(client, "/api/v1/operations")]
    assert found == [("bob", "slow"), ("carol", "vip")]


def test_a_writer_may_add_that_a_failed_attempt_is_not_repeated(client: httpx.Client) -> None:
    send(client, wire(retry_on_error="false"))
    send(client, wire(instant="20261114191013983"))

    assert [one["retry_on_error"] for one in items(client, "/api/v1/operations")] == [True, False]


def test_a_repeat_says_only_what_is_in_it_about_further_attempts(client: httpx.Client) -> None:
    add_table(client)
    add_operation(client, retry_on_error=False)

    def retries(**said: str) -> list[bool]:
        send(client, wire(**said))
        return [one["retry_on_error"] for one in items(client, "/api/v1/operations")]

    assert [retries(), retries(resource="spark:8g,4g"), retries(retry_on_error="TRUE"), retries()] == [
        [False], [False], [True], [True]
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["cluster", "clean"])
def test_what_a_table_is_not_registered_for_is_a_hint(client: httpx.Client, kind: str) -> None:
    add_table(client)

    assert send(client, wire(kind))["stored"] is True

    assert items(client, "/api/v1/operations") == []
    assert "intake.hint" in kinds(client)


def test_an_unknown_table_is_not_registered_by_cluster_or_clean(client: httpx.Client) -> None:
    answer = send(client, wire("cluster"))

    assert answer["stored"] is False
    assert "lakehand tables add" in str(answer["message"])
    assert items(client, "/api/v1/tables") == []


@pytest.mark.parametrize("recording", recordings().values(), ids=list(recordings()))
def test_real_requests_of_hudi_are_understood(client: httpx.Client, recording: Recording) -> None:
    for request in recording.requests:
        headers = dict(request.headers) | {"Accept-Encoding": "identity"}
        body = request.body.encode() if request.method == "POST" else None
        read(client.request(request.method, request.target, headers=headers, content=body))

    assert not any(kind.startswith("wire.") for kind in kinds(client))


@pytest.mark.parametrize(
    ("scenario", "location"),
    [
        ("odd-path", "/data/my trips/100% ça+va&x=1#ü"),
        ("escaped-path", "/data/north%20sea"),
        ("file-uri", "/data/trips"),
        ("untidy-path", "/data/trips"),
    ],
)
def test_client_and_callback_mean_one_table(client: httpx.Client, scenario: str, location: str) -> None:
    recorded = recordings()[scenario].requests
    for request in sorted(recorded, key=lambda r: r.method):  # the client's requests first: they register the table
        body = request.body.encode() if request.method == "POST" else None
        answer = read(client.request(request.method, request.target, content=body))
        assert answer["stored"] is True

    assert [table["location"] for table in items(client, "/api/v1/tables")] == [location]


def test_what_the_writer_deploys_is_kept_without_its_spark_settings(client: httpx.Client) -> None:
    for request in recordings()["database-and-deployment"].requests:
        send(client, request.target)

    [table] = items(client, "/api/v1/tables")
    assert (table["db_name"], table["owner"], table["queue"]) == ("sales", "ana", "night jobs")
    assert "intake.parameter-refused" in kinds(client)
    [operation] = items(client, "/api/v1/operations")
    assert client.get(f"/api/v1/operations/{operation['id']}").json()["parameters"]["options"] == {}


def test_a_callback_wakes_a_known_table(client: httpx.Client) -> None:
    add_table(client)

    assert posted(client, COMMIT)["stored"] is True

    [table] = items(client, "/api/v1/tables")
    assert table["notified_at"] is not None


def test_a_callback_registers_only_with_actions(client: httpx.Client) -> None:
    assert posted(client, COMMIT)["stored"] is False

    query = "?db_name=sales&owner=ana&queue=night&actions=compaction,clean,explode"
    assert posted(client, COMMIT, CALLBACK + query)["stored"] is True

    [table] = items(client, "/api/v1/tables")
    assert (table["db_name"], table["owner"], table["queue"]) == ("sales", "ana", "night")
    assert table["action_types"] == ["clean", "compaction"]
    assert "wire.unknown-action" in kinds(client)


def test_a_callback_of_megabytes_is_read_as_far_as_needed(client: httpx.Client) -> None:
    add_table(client)
    stats = [{"path": "p" * 900, "note": 'a "quoted" {brace}'}] * 9000

    assert posted(client, COMMIT | {"hoodieWriteStat": stats})["stored"] is True
    assert posted(client, {"hoodieWriteStat": stats, **COMMIT})["stored"] is True


def test_a_callback_over_the_bound_is_answered_and_noted(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(with_security(context, max_callback_body=100_000))
    add_table(client)
    stats = [{"path": "p" * 1000}] * 1000

    assert posted(client, {"hoodieWriteStat": stats, **COMMIT})["stored"] is False
    assert posted(client, {**COMMIT, "hoodieWriteStat": stats})["stored"] is True

    assert "wire.callback-body" in kinds(client)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"\x00\xff\xfe", b'{"basePath": 7}', b'{"basePath": "\xff"}',
        b'{"basePath": "\\ud800"}', b"[" * 100_000, b'{"a":' * 50_000, b'"' * 70_000,
        b'{"basePath": "' + b"x" * 70_000 + b'"}',
        b'{"x":{"basePath":"/data/trips"}}', b'{"basePath":"/data/trips\\u0000"}',
    ],
)  # fmt: skip
def test_a_callback_that_makes_no_sense_is_answered_and_noted(client: httpx.Client, body: bytes) -> None:
    assert posted(client, body)["stored"] is False

    assert kinds(client) & {"wire.callback-body", "intake.refused"}


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        (wire("explode"), "wire.unknown-path"),
        ("/v1/hoodie/service/a/b/c", "wire.unknown-path"),
        ("/v1/hoodie/service/", "wire.unknown-path"),
        (wire(action="CANCEL"), "wire.unknown-action"),
        (wire(execution_engine="flink"), "wire.unknown-engine"),
        (wire(instant="tomorrow"), "intake.odd-instant"),
        (wire(instant="29991231235959999"), "intake.odd-instant"),
        (wire(instant="2026'; DROP TABLE x"), "intake.odd-instant"),
        (wire(instant=",".join(str(20261114000000000 + n) for n in range(1500))), "intake.odd-instant"),
        (wire(extra_params="spark.driver.extraJavaOptions=-Devil;a=b"), "intake.parameter-refused"),
        (wire(basepath="/elsewhere/trips"), "intake.refused"),
        (wire(basepath="/data/../etc/passwd"), "intake.refused"),
        (wire(basepath="/data/%2e%2e/etc"), "intake.refused"),
        (wire(basepath="/data/a\x00b"), "intake.refused"),
        (wire(basepath="/data\\..\\etc"), "intake.refused"),
        (wire(basepath="ftp://data/trips"), "intake.refused"),
        (wire(basepath=""), "intake.refused"),
        (wire(basepath="/data/" + "x" * 5000), "intake.refused"),
        (wire(table_name="x" * 300), "intake.refused"),
        (wire(db_name="a\x00b"), "intake.refused"),
        (wire(username="a\nb"), "intake.refused"),
        ("/v1/hoodie/service/compact?" + "&".join(f"p{n}=1" for n in range(200)), "wire.unreadable"),
        ("/v1/hoodie/service/compact", "intake.refused"),
        ("/v1/hoodie/service/compact?%ff%fe=%zz&&&=&basepath=%ff", "intake.refused"),
    ],
)
def test_what_is_wrong_is_answered_with_200_and_noted(client: httpx.Client, address: str, kind: str) -> None:
    send(client, address)

    assert kind in kinds(client)


def test_requests_without_the_token_are_answered_and_stored_nowhere(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(with_security(context, wire_token="open-sesame"))

    assert send(client, wire())["stored"] is False
    assert send(client, wire(token="guessed"))["stored"] is False
    assert items(client, "/api/v1/tables") == []
    assert "wire.unauthorized" in kinds(client)

    assert send(client, wire(token="open-sesame"))["stored"] is True


def test_a_callback_needs_its_key_or_the_token(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(with_security(context, callback_key="sesame", wire_token="open"))
    add_table(client)
    key = {"HUDI-CALLBACK-KEY": "sesame"}

    assert posted(client, COMMIT)["stored"] is False
    assert read(client.post(CALLBACK, json=COMMIT, headers={"HUDI-CALLBACK-KEY": "guessed"}))["stored"] is False
    assert read(client.post(CALLBACK, json=COMMIT, headers=key))["stored"] is True
    assert posted(client, COMMIT, f"{CALLBACK}?token=open")["stored"] is True


def test_secrets_appear_nowhere(context: ApiContext, client_of: ClientOf, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    client = client_of(with_security(context, wire_token="open-sesame", callback_key="key-sesame"))
    reply = []
    for token in ("wrong-sesame", "open-sesame"):
        reply.append(send(client, wire("explode", token=token)))
        reply.append(send(client, wire(token=token, basepath="/elsewhere")))
        reply.append(read(client.post(CALLBACK, content=b"{", headers={"HUDI-CALLBACK-KEY": token})))

    logged = [record.getMessage() for record in caplog.records if not record.name.startswith("http")]
    everything = [json.dumps(reply), client.get("/api/v1/events").text, client.get("/metrics").text, *logged]
    assert "sesame" not in "".join(everything)


@dataclass(frozen=True, kw_only=True)
class Away(Intake):
    """An intake whose database fails, or hangs until it is let go."""

    hang: threading.Event | None = None

    def record(self, notifications: Sequence[Notification | RefusedNotification]) -> Sequence[Receipt]:
        if self.hang is None:
            raise Unavailable("the database is away")
        self.hang.wait(60)
        return super().record(notifications)


def away(intake: Intake, hang: threading.Event | None = None) -> Away:
    return Away(
        store=intake.store, warehouses=intake.warehouses, heartbeat_timeout=intake.heartbeat_timeout,
        rate_limiter=intake.rate_limiter, wake=intake.wake, rules=intake.rules, hang=hang,
    )  # fmt: skip


def test_writers_are_answered_while_the_database_is_away(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(replace(context, intake=away(context.intake)))

    assert send(client, wire())["stored"] is False
    assert posted(client, COMMIT)["stored"] is False


def test_writers_are_answered_while_the_database_hangs_and_it_is_stored_later(
    context: ApiContext, client_of: ClientOf, store: SqlStore
) -> None:
    hang = threading.Event()
    client = client_of(replace(context, intake=away(context.intake, hang), wire_timeout=0.2))

    assert send(client, wire())["stored"] is False
    assert client.get("/health/live").status_code == 200
    hang.set()

    wait_for(lambda: send(client, wire(instant=""))["stored"], "an answer after the database is back")
    assert len(items(client, "/api/v1/operations")) == 1


def test_a_flood_of_new_tables_is_bounded(store: SqlStore, client_of: ClientOf) -> None:
    client = client_of(context_over(store, per_minute=5))

    stored = [send(client, wire(basepath=f"/data/t{n}", table_name=f"t{n}"))["stored"] for n in range(20)]

    assert stored.count(True) == len(items(client, "/api/v1/tables")) == 5


def test_a_flood_of_different_troubles_is_bounded(client: httpx.Client) -> None:
    for number in range(300):
        send(client, wire(f"odd{number}"))

    found = items(client, "/api/v1/events?limit=1000")
    assert len(found) <= 201
    assert "intake.overflow" in {event["kind"] for event in found}
