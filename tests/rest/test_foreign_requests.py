# SPDX-License-Identifier: Apache-2.0
"""What a web page can make a browser send changes nothing: foreign hosts, foreign pages, bodies that are not JSON."""

import logging
from collections.abc import Callable
from urllib.parse import urlencode

import httpx
import pytest

from lakehand.rest import ApiContext
from lakehand.rest.refusals import Hosts, checked_name
from tests.rest.parts import INSTANT, LOCATION, add_table, items, wire, with_security

ClientOf = Callable[[ApiContext], httpx.Client]
CALLBACK = "/v1/hoodie/service/callback"
ROUTES = ("/health/live", "/health/ready", "/metrics", "/api/v1/version", "/api/v1/openapi.json", "/api/v1/tables")
FORM = "application/x-www-form-urlencoded"


def bare(client: httpx.Client) -> httpx.Client:
    """A client that says of itself only what a test says."""
    for name in ("content-type", "user-agent"):
        del client.headers[name]
    return client


@pytest.mark.parametrize("path", ROUTES)
def test_a_rebound_name_is_refused_on_every_route(client: httpx.Client, path: str) -> None:
    answer = client.get(path, headers={"Host": "rebound.attacker.example:9091"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "foreign-host")
    assert "rebound.attacker.example" in answer.json()["error"]["message"]
    assert "allowed_hosts" in answer.json()["error"]["message"]


def test_a_rebound_name_registers_pauses_and_clears_nothing(client: httpx.Client) -> None:
    table = add_table(client)
    foreign = {"Host": "rebound.attacker.example"}

    for path in ("pause", "clear", "evaluate"):
        assert client.post(f"/api/v1/tables/{table['id']}/{path}", json={}, headers=foreign).status_code == 421
    assert client.delete(f"/api/v1/tables/{table['id']}", headers=foreign).status_code == 421

    [same] = items(client, "/api/v1/tables")
    assert same == table


def test_a_writer_under_a_foreign_name_is_answered_and_stores_nothing(client: httpx.Client) -> None:
    foreign = {"Host": "lakehand:9091"}
    body = {"basePath": LOCATION, "tableName": "trips"}

    asked = client.get(wire(), headers=foreign)
    reported = client.post(f"{CALLBACK}?actions=compaction", json=body, headers=foreign)

    for answer in (asked, reported):
        assert (answer.status_code, answer.json()["stored"]) == (200, False)
        assert "'lakehand'" in answer.json()["message"]
        assert "allowed_hosts" in answer.json()["message"]
    assert items(client, "/api/v1/tables") == []


def test_the_refused_name_is_in_the_log_once_and_in_the_metrics(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        client.get(wire(), headers={"Host": "lakehand:9091"})

    [record] = [r for r in caplog.records if r.__dict__.get("refused") == "foreign-host"]
    assert record.__dict__["what"] == "lakehand"
    assert "allowed_hosts" in record.getMessage()
    assert 'lakehand_refusals_total{name="lakehand",reason="foreign-host"} 3.0' in client.get("/metrics").text


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.:9091", "x.localhost:1", "127.0.0.1", "127.8.9.1:80", "[::1]:9091", "[::1]"]
)
def test_loopback_names_are_ours(client: httpx.Client, host: str) -> None:
    assert client.get("/health/live", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("hosts", "ours", "foreign"),
    [
        (
            Hosts.of("127.0.0.1", ["box"], []),
            ["127.0.0.1:9091"],
            ["box", "10.0.0.5", "0.0.0.0", "evil.example", "2130706433", "", "[::1", "localhost.evil.example"],
        ),
        (Hosts.of("10.0.0.5", ["box"], []), ["10.0.0.5:9091", "localhost"], ["10.0.0.6", "box"]),
        (Hosts.of("lake.internal", [], []), ["Lake.Internal:9091"], ["internal", "x.lake.internal"]),
        (
            Hosts.of("0.0.0.0", ["box.lan", "box"], ["lakehand"]),
            ["box", "box.lan:1", "10.0.0.5", "[fe80::1]:9091", "lakehand:9091"],
            ["0.0.0.0", "evil.example", "lakehand.evil.example"],
        ),
        (
            Hosts.of("::", [], ["*.internal"]),
            ["a.internal", "a.b.internal", "10.1.1.1"],
            ["internal", "ainternal", "internal.evil.example", "[::]"],
        ),
    ],
)
def test_who_is_ours_follows_from_the_address_and_the_setting(
    hosts: Hosts, ours: list[str], foreign: list[str]
) -> None:
    for _ in range(2):  # the second time from memory
        assert [host for host in ours if not hosts.admits(host.encode())] == []
        assert [host for host in foreign if hosts.admits(host.encode())] == []


@pytest.mark.parametrize("text", ["*", "http://lakehand", "lakehand:9091", "a/b", "", "*.", "a b", "*.*.x"])
def test_what_is_no_host_name_is_refused_in_the_settings(text: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        checked_name(text)


def test_allowed_names_are_served(context: ApiContext, client_of: ClientOf) -> None:
    client = client_of(with_security(context, hosts=Hosts.of("127.0.0.1", [], ["lakehand"])))

    assert client.get("/health/live", headers={"Host": "lakehand:9091"}).status_code == 200
    assert client.get(wire(), headers={"Host": "lakehand:9091"}).json()["stored"] is True


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("kind", ["application/json", FORM, "text/plain", "multipart/form-data; boundary=x"])
def test_a_foreign_page_changes_nothing(client: httpx.Client, headers: dict[str, str], kind: str) -> None:
    table = add_table(client)
    sent = {**headers, "Content-Type": kind}

    for path in (f"/api/v1/tables/{table['id']}/pause", "/api/v1/tables", "/v1/hoodie/service/register"):
        answer = client.post(path, content=b'{"location":"/data/x","base_path":"/data/x"}', headers=sent)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross-site")
        assert not any(name.startswith("access-control") for name in answer.headers)
    reported = client.post(f"{CALLBACK}?actions=compaction", content=b'{"basePath":"/data/x"}', headers=sent)

    assert (reported.status_code, reported.json()["stored"]) == (200, False)
    assert items(client, "/api/v1/tables") == [table]


@pytest.mark.parametrize("kind", [None, FORM, "text/plain", "application/jsonx", "text/plain; application/json"])
def test_state_is_changed_by_json_only(client: httpx.Client, kind: str | None) -> None:
    """What a form of an old browser sends, that says nothing of where it comes from."""
    table = add_table(client)
    sent = {"Content-Type": kind} if kind else {}
    plain = bare(client)

    for path in (f"/api/v1/tables/{table['id']}/pause", "/api/v1/tables", "/v1/hoodie/service/register"):
        answer = plain.post(path, content=b'{"location":"/data/x","base_path":"/data/x"}', headers=sent)
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "not-json")
    reported = plain.post(f"{CALLBACK}?actions=compaction", content=b'{"basePath":"/data/x"}', headers=sent)

    assert (reported.status_code, reported.json()["stored"]) == (200, False)
    assert items(client, "/api/v1/tables") == [table]


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "none"},
        {"Referer": "https://attacker.example/"},
        {"Origin": "https://attacker.example"},
        {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"},
    ],
)
def test_an_image_that_points_at_the_wire_stores_nothing(client: httpx.Client, headers: dict[str, str]) -> None:
    answer = bare(client).get(wire(), headers=headers)

    assert (answer.status_code, answer.json()["stored"]) == (200, False)
    assert "browser" in answer.json()["message"]
    assert items(client, "/api/v1/tables") == []
    assert client.get(wire()).json()["stored"] is True


def test_a_page_of_our_own_may_change_things(client: httpx.Client) -> None:
    own = {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin", "User-Agent": "Mozilla/5.0"}

    answer = client.post("/api/v1/tables", json={"location": LOCATION}, headers=own)

    assert answer.status_code == 201
    assert client.delete(f"/api/v1/tables/{answer.json()['id']}", headers=own).status_code == 200


def test_a_preflight_request_of_a_foreign_page_is_refused(client: httpx.Client) -> None:
    asks = {
        "Origin": "https://attacker.example", "Access-Control-Request-Method": "DELETE",
        "Access-Control-Request-Headers": "content-type",
    }  # fmt: skip
    for path in ("/api/v1/tables/1", "/api/v1/operations", "/v1/hoodie/service/register"):
        answer = client.options(path, headers=asks)
        assert answer.status_code >= 400
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_a_cross_site_form_against_the_operations_stores_nothing(client: httpx.Client) -> None:
    add_table(client)
    form = urlencode({"location": LOCATION, "action": "compaction", "instant": INSTANT})

    sent = bare(client).post("/api/v1/operations", content=form.encode(), headers={"Content-Type": FORM})

    assert sent.status_code == 415
    assert items(client, "/api/v1/operations") == []
