# SPDX-License-Identifier: Apache-2.0
"""Commit events: a table's schedules are due once its event is answered; what is wrong is said in the answer."""

import json
import re
import socket
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import httpx
import pytest

from lakehand.api.writers import MOST_COMMITS, MOST_REASONS
from lakehand.core.intake.commit_events import OUTSIDE, REPEATED, UNKNOWN, CommitIntake
from lakehand.core.ports import Verified
from lakehand.domain.access import Role
from lakehand.domain.errors import Unavailable
from lakehand.domain.notifications import CommitEvent, CommitResult
from lakehand.rest import ApiContext
from lakehand.rest.commits.events import COMMITTED
from lakehand.store import SqlStore
from tests.rest.parts import (
    LOCATION,
    Listed,
    add_table,
    context_over,
    items,
    kinds,
    made_token,
    with_security,
    with_services,
)

ClientOf = Callable[[ApiContext], httpx.Client]
PATH = "/api/v1/commits"
WIRE, KEY = "sesame-sesame-03", "sesame-sesame-04"


def event(id: str = "1", **data: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "type": COMMITTED, "source": "job", "id": id, "data": data or {"location": LOCATION}}


def post(client: httpx.Client, body: Any, path: str = PATH, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(path, content=content, headers={"Content-Type": "application/json", **headers})


def send(client: httpx.Client, body: Any, path: str = PATH, **headers: str) -> dict[str, Any]:
    answer = post(client, body, path, **headers)
    assert answer.status_code == 202, answer.text
    counts: dict[str, Any] = answer.json()
    return counts


def counts_of(answer: dict[str, Any]) -> tuple[int, int, int, int]:
    return answer["stored"], answer["ignored"], answer["waiting"], answer["refused"]


def due(store: SqlStore) -> int:
    """How many schedules somebody has made due since the last evaluation."""
    query = "SELECT sum(wakes) FROM schedule"
    return int(store.database.read(lambda tx: tx.exec_driver_sql(query).scalar()) or 0)


def reasons(answer: dict[str, Any]) -> list[str]:
    return [one["reason"] for one in answer["reasons"]]


def test_an_event_makes_the_schedules_of_its_table_due(store: SqlStore, client: httpx.Client) -> None:
    add_table(client)
    before = due(store)

    answer = send(client, event())

    assert (counts_of(answer), answer["tables"], answer["reasons"]) == ((1, 0, 0, 0), 1, [])
    assert due(store) == before + 1
    assert items(client, "/api/v1/tables")[0]["notified_at"] is not None


def test_partitions_of_events_are_kept_for_the_next_decision(store: SqlStore, client: httpx.Client) -> None:
    table = add_table(client)["id"]
    one = event("1", location=LOCATION, partitions=["day=1"])
    two = event("2", location=LOCATION, partitions=["day=2", "day=1"])

    send(client, [one, event("3"), two])
    send(client, one)  # a repeat

    assert store.partitions.changed(table).names == ("day=1", "day=2")
    summary = client.get(f"/api/v1/tables/{table}/explain").json()["summary"]
    assert summary.endswith("; events named 2 partitions: day=1, day=2")


@pytest.mark.parametrize(
    "names", [[f"day={n}" for n in range(1000)], ["x" * 1024], ["day=\x00"]], ids=["many", "long", "odd"]
)
def test_partitions_that_cannot_be_kept_are_no_reason_to_refuse(
    store: SqlStore, client: httpx.Client, names: list[str]
) -> None:
    table = add_table(client)["id"]

    assert counts_of(send(client, event(location=LOCATION, partitions=names))) == (1, 0, 0, 0)

    assert store.partitions.changed(table).is_many


@pytest.mark.parametrize("kind", ["application/json", "application/cloudevents+json; charset=utf-8"])
def test_a_structured_event_may_have_either_type_of_content(client: httpx.Client, kind: str) -> None:
    add_table(client)

    assert counts_of(send(client, event(), **{"Content-Type": kind})) == (1, 0, 0, 0)


def test_a_binary_event_has_its_attributes_in_headers(client: httpx.Client) -> None:
    add_table(client)
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "job", "ce-type": COMMITTED}

    assert counts_of(send(client, {"location": LOCATION}, **headers)) == (1, 0, 0, 0)
    assert reasons(send(client, {"location": LOCATION}, **headers)) == [REPEATED]


def test_a_thousand_events_are_one_request_and_one_more_is_too_many(store: SqlStore, client: httpx.Client) -> None:
    for number in range(10):
        add_table(client, location=f"/data/t{number}", table_name=f"t{number}")
    events = [event(str(number), location=f"/data/t{number % 10}") for number in range(MOST_COMMITS)]

    answer = send(client, events, **{"Content-Type": "application/cloudevents-batch+json"})
    too_many = post(client, [*events, event("more")])

    assert (counts_of(answer), answer["tables"]) == ((1000, 0, 0, 0), 10)
    assert due(store) == 10
    assert (too_many.status_code, too_many.json()["error"]["code"]) == (422, "invalid")


def test_a_wrong_event_of_a_batch_harms_no_other(client: httpx.Client) -> None:
    add_table(client)
    wrong = [{**event("2"), "specversion": "0.3"}, {**event("3"), "data": {"location": 7}}, {"id": "4"}, 5, None]

    answer = send(client, [event(), *wrong])

    assert counts_of(answer) == (1, 0, 0, 5)
    assert len(answer["reasons"]) == 4


@pytest.mark.parametrize(
    "body",
    [
        b"", b"nonsense", b"\xff", b"7", b"{}", b'{"Records": 7}', b"[" * 40_000,
        json.dumps(event(location="")).encode(),
        json.dumps({**event(), "id": ""}).encode(), json.dumps({**event(), "time": "yesterday"}).encode(),
        json.dumps(event(location=LOCATION, partitions=["p"] * 1001)).encode(),
    ],
)  # fmt: skip
def test_what_makes_no_sense_as_a_whole_is_refused_as_a_whole(client: httpx.Client, body: bytes) -> None:
    answer = post(client, body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")


def test_a_body_has_a_bound_of_its_own(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(with_security(context, max_commits_body=100_000))

    assert post(client, b" " * 100_001).status_code == 413
    assert post(client, b"[" + b"{}," * 60_000).status_code == 413
    assert post(client, b" " * 99_000 + json.dumps(event()).encode()).status_code == 202


def test_events_in_too_many_envelopes_are_refused(client: httpx.Client) -> None:
    body: Any = event()
    for _ in range(7):
        body = {"messageId": "1", "body": json.dumps(body)}

    assert "envelopes" in post(client, body).json()["error"]["message"]


def test_an_event_of_another_type_is_ignored(client: httpx.Client) -> None:
    assert counts_of(send(client, {**event(), "type": "com.example.other"})) == (0, 1, 0, 0)
    assert kinds(client) == set()


def test_the_same_event_again_is_ignored_and_another_of_the_table_is_not(client: httpx.Client) -> None:
    add_table(client)

    assert counts_of(send(client, event())) == (1, 0, 0, 0)
    assert counts_of(send(client, [event(), event("2"), event("2"), event("0")])) == (2, 2, 0, 0)
    assert counts_of(send(client, {**event(), "source": "another job"})) == (1, 0, 0, 0)


def test_an_event_that_was_refused_may_come_again(client: httpx.Client) -> None:
    assert reasons(send(client, event())) == [UNKNOWN]
    add_table(client)

    assert counts_of(send(client, event())) == (1, 0, 0, 0)


@pytest.mark.parametrize("location", ["/etc/passwd", "/data/../etc", "s3://other/t", "relative", "/"])
def test_a_location_outside_of_the_warehouses_is_refused(client: httpx.Client, location: str) -> None:
    answer = send(client, event(location=location, format="hudi"), f"{PATH}?actions=clean")

    assert (counts_of(answer), reasons(answer)) == ((0, 0, 0, 1), [OUTSIDE])
    assert items(client, "/api/v1/tables") == []
    assert "commits.refused" in kinds(client)


def test_a_table_is_found_under_every_spelling_of_its_storage(client: httpx.Client) -> None:
    add_table(client, location="s3://lake/trips")

    assert counts_of(send(client, event(location="s3a://lake/trips/"))) == (1, 0, 0, 0)
    assert counts_of(send(client, event("2", location="s3n://lake/trips"))) == (1, 0, 0, 0)


def test_a_table_is_found_by_its_name(client: httpx.Client) -> None:
    add_table(client, db_name="sales.eu", table_name="orders")

    assert counts_of(send(client, event(table="sales.eu.orders"))) == (1, 0, 0, 0)
    assert counts_of(send(client, event("2", table="orders"))) == (0, 0, 0, 1)


def test_a_table_of_a_followed_catalog_is_registered_by_its_first_event(
    store: SqlStore, client_of: ClientOf
) -> None:  # fmt: skip
    context = context_over(store, listed=Listed(["new"]))

    def sync() -> None:
        context.services.catalogs.run_once()

    client = client_of(replace(context, commits=replace(context.commits, sync_catalogs=sync)))

    first = send(client, [event(catalog="lake", table="db.new"), event("2", catalog="other", table="db.new")])
    second = send(client, event("3", catalog="lake", table="db.new"))

    assert (counts_of(first), counts_of(second)) == ((0, 0, 1, 1), (1, 0, 0, 0))
    [table] = items(client, "/api/v1/tables")
    assert (table["catalog"], table["db_name"], table["table_name"]) == ("lake", "db", "new")


def test_the_address_may_name_the_catalog_of_senders_that_cannot(client: httpx.Client) -> None:
    assert counts_of(send(client, event(table="db.new"), f"{PATH}?catalog=lake")) == (0, 0, 1, 0)
    assert counts_of(send(client, event("2", table="db.new"))) == (0, 0, 0, 1)


def test_an_unknown_table_is_registered_only_with_actions_and_a_format(client: httpx.Client) -> None:
    assert counts_of(send(client, event(location=LOCATION, format="hudi"))) == (0, 0, 0, 1)
    assert counts_of(send(client, event(location=LOCATION), f"{PATH}?actions=clean")) == (0, 0, 0, 1)
    assert counts_of(send(client, event(location=LOCATION, format="hudi"), f"{PATH}?actions=clean")) == (1, 0, 0, 0)

    [table] = items(client, "/api/v1/tables")
    assert (table["location"], table["format"], table["action_types"]) == (LOCATION, "hudi", ["clean"])
    assert post(client, event("2"), f"{PATH}?actions=dance").status_code == 422


def test_new_tables_are_limited_per_minute(store: SqlStore, client_of: ClientOf) -> None:
    client = client_of(context_over(store, per_minute=3))
    events = [event(str(n), location=f"/data/new{n}", format="hudi") for n in range(10)]

    answer = send(client, events, f"{PATH}?actions=compaction")

    assert counts_of(answer) == (3, 0, 0, 7)
    assert len(items(client, "/api/v1/tables")) == 3


def test_a_burst_for_unknown_tables_is_one_event_with_a_count(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    add_table(client)
    burst = [event(f"{n}", location=f"/data/unknown{n}") for n in range(1000)]
    for number in range(5):
        answer = send(client, [*burst[: MOST_COMMITS - 1], event(f"known {number}")])
        assert counts_of(answer) == (1, 0, 0, 999)
        assert len(answer["reasons"]) == 1

    [refusal] = [one for one in items(client, "/api/v1/events") if one["kind"].startswith(("commits.", "intake."))]
    assert (refusal["kind"], refusal["times"]) == ("commits.refused", 4995)
    assert len(items(client, "/api/v1/tables")) == 1
    assert caplog.records == []


def test_an_answer_has_a_bounded_number_of_reasons(client: httpx.Client) -> None:
    wrong = [
        {**event(str(n)), "data": {"location": LOCATION, f"x{n}": 1, "numbers": {f"n{n}": "many"}}} for n in range(50)
    ]

    answer = send(client, wrong)

    assert (answer["refused"], len(answer["reasons"])) == (50, MOST_REASONS)


def test_the_example_with_curl_in_the_documentation_is_stored(client: httpx.Client) -> None:
    add_table(client)
    page = Path(__file__).parents[2] / "docs" / "commit-events.md"
    [example] = re.findall(r"^```sh\n(curl .*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    command = example.replace("http://127.0.0.1:9091", str(client.base_url).rstrip("/"))

    answer = subprocess.run(["bash", "-c", command], capture_output=True, check=True)

    assert counts_of(json.loads(answer.stdout)) == (1, 0, 0, 0)


# Who may send


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (PATH, {}, 401),
        (f"{PATH}?token=wrong", {}, 401),
        (f"{PATH}?token={WIRE}", {}, 202),
        (PATH, {"HUDI-CALLBACK-KEY": KEY}, 202),
        (PATH, {"HUDI-CALLBACK-KEY": WIRE}, 401),
        (PATH, {"Authorization": f"Bearer {WIRE}"}, 401),
    ],
)
def test_senders_that_have_no_token_of_the_api_use_a_secret_of_writers(
    store: SqlStore, client_of: ClientOf, path: str, headers: dict[str, str], status: int
) -> None:
    context = with_security(context_over(store), wire_token=WIRE, callback_key=KEY)

    while_open = post(client_of(context), event(), path, **headers)
    made_token(context, "ann", Role.OPERATOR)
    with_tokens = post(client_of(context), event("2"), path, **headers)

    assert (while_open.status_code, with_tokens.status_code) == (status, status)


def test_a_viewer_and_a_token_of_one_owner_may_not_send(store: SqlStore, client_of: ClientOf) -> None:
    context = with_security(context_over(store))
    secrets = [
        made_token(context, name, role, owner=owner).secret
        for name, role, owner in (("v", Role.VIEWER, ""), ("o", Role.OPERATOR, "ann"), ("p", Role.OPERATOR, ""))
    ]
    client = client_of(context)

    answers = [post(client, event(), Authorization=f"Bearer {secret}") for secret in secrets]

    assert [answer.status_code for answer in answers] == [403, 403, 202]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "text/plain; charset=UTF-8", "x-amz-sns-message-type": "Notification"}, 202),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Origin": "https://elsewhere"}, 403),
    ],
)
def test_no_page_of_another_site_can_send(client: httpx.Client, headers: dict[str, str], status: int) -> None:
    assert post(client, event(), **headers).status_code == status


# Faults


@dataclass(frozen=True, kw_only=True)
class DiesAfterStoring(CommitIntake):
    def record(self, events: Sequence[CommitEvent]) -> Sequence[CommitResult]:
        super().record(events)
        raise Unavailable("the process was killed before it answered")


def test_an_event_that_was_stored_and_not_answered_is_sent_again_without_harm(
    store: SqlStore, client_of: ClientOf
) -> None:
    context = context_over(store)
    commits = context.commits
    dying = DiesAfterStoring(intake=commits.intake, plugins=commits.plugins, sync_catalogs=commits.sync_catalogs)
    add_table(client_of(context))

    first = post(client_of(replace(context, commits=dying)), event())
    restarted = client_of(context_over(store))
    second = send(restarted, event())

    assert (first.status_code, first.headers["Retry-After"]) == (503, "2")
    assert counts_of(second) == (1, 0, 0, 0)
    assert due(store) == 1
    assert items(restarted, "/api/v1/operations") == []


@dataclass
class HangingIssuer:
    """A verifier whose issuer does not answer while a forged token waits for its keys."""

    go_on: Event = field(default_factory=Event)
    asked: Event = field(default_factory=Event)
    is_on: ClassVar[bool] = True

    def verify(self, text: str) -> Verified | None:
        self.asked.set()
        self.go_on.wait(30)
        return None


def test_a_forged_token_that_waits_for_its_issuer_delays_no_honest_event(store: SqlStore, client_of: ClientOf) -> None:
    issuer = HangingIssuer()
    context = with_security(context_over(store), wire_token=WIRE)
    context = with_services(context, access=replace(context.services.access, verifier=issuer))
    secret = made_token(context, "ann", Role.OPERATOR).secret
    client = client_of(context)
    with ThreadPoolExecutor(1) as pool:
        forged = pool.submit(post, client, event("0"), Authorization="Bearer a.b.c")
        assert issuer.asked.wait(30)
        try:
            with_token = post(client, event("1"), Authorization=f"Bearer {secret}")
            of_writer = post(client, event("2"), f"{PATH}?token={WIRE}")
            assert not forged.done()
        finally:
            issuer.go_on.set()
        assert forged.result().status_code == 401
    assert (with_token.status_code, of_writer.status_code) == (202, 202)


def test_the_body_of_a_sender_without_a_token_is_not_read(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(with_security(context, tokens={"ann": "ann-has-a-token-1"}))
    address = (client.base_url.host, client.base_url.port or 0)
    head = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    with socket.create_connection(address, timeout=30) as stranger:
        stranger.sendall(head % PATH.encode())

        assert stranger.recv(100).startswith(b"HTTP/1.1 401")
