# SPDX-License-Identifier: Apache-2.0
"""What is sent again, and what is not, against a real server that drops, delays or refuses."""

import json

import pytest

from lakehand.client import NO_RETRIES, LakehandClient, NotFound, RequestFailed, Retries, Unavailable
from tests.client.conftest import MakeClient
from tests.client.servers import DROP, SILENCE, answer, little_server
from tests.kit.ports import deaf_port

QUICK = Retries(attempts=3, first=0.001, longest=0.01)
VERSION = answer(body=json.dumps({"name": "lakehand", "version": "1", "instance": "one", "python": "3", "new": 7}))
AWAY = answer("503 Service Unavailable", '{"error": {"code": "unavailable", "message": "the database is away"}}')
MISSING = answer("404 Not There", '{"error": {"code": "not-found", "message": "no"}}')


@pytest.mark.parametrize("trouble", [DROP, AWAY, answer("502 Bad Gateway", "<html>")])
def test_a_read_is_repeated_until_it_is_answered(make_client: MakeClient, trouble: str) -> None:
    with little_server(trouble, trouble, VERSION) as server:
        assert make_client(server.url, retries=QUICK).version().version == "1"

    assert server.requests == ["GET /api/v1/version HTTP/1.1"] * 3


def test_attempts_are_bounded(make_client: MakeClient) -> None:
    with little_server(AWAY) as server:
        client = make_client(server.url, retries=QUICK)
        with pytest.raises(Unavailable) as away:
            client.version()

    assert len(server.requests) == 3
    assert (away.value.status, away.value.code) == (503, "unavailable")
    assert str(away.value) == f"{server.url} answered 503: the database is away; its log says more"


def test_without_retries_nothing_is_repeated(make_client: MakeClient) -> None:
    with little_server(DROP, VERSION) as server:
        client = make_client(server.url, retries=QUICK)
        with pytest.raises(Unavailable):
            client.with_options(retries=NO_RETRIES).version()
        assert client.version().version == "1"


@pytest.mark.parametrize("status", ["404 Not There", "500 Internal Server Error"])
def test_an_answer_that_would_be_the_same_again_is_final(make_client: MakeClient, status: str) -> None:
    with little_server(answer(status, "{}")) as server, pytest.raises(RequestFailed):
        make_client(server.url, retries=QUICK).version()

    assert len(server.requests) == 1


@pytest.mark.parametrize("trouble", [DROP, AWAY])
def test_work_that_would_be_planned_twice_is_not_submitted_again(make_client: MakeClient, trouble: str) -> None:
    with little_server(trouble) as server, pytest.raises(Unavailable):
        make_client(server.url, retries=QUICK).operations.submit(1, "compaction")

    assert len(server.requests) == 1


@pytest.mark.parametrize("trouble", [DROP, AWAY])
def test_a_plan_that_is_named_by_its_instant_is_submitted_again(make_client: MakeClient, trouble: str) -> None:
    with little_server(trouble, MISSING) as server, pytest.raises(NotFound, match=r"^no$"):
        make_client(server.url, retries=QUICK).operations.submit(1, "compaction", instant="20261114191013982")

    assert server.requests == ["POST /api/v1/operations HTTP/1.1"] * 2


@pytest.mark.parametrize("call", ["cancel", "retry", "remove"])
def test_a_change_that_may_have_been_made_is_not_repeated(make_client: MakeClient, call: str) -> None:
    with little_server(DROP) as server, pytest.raises(Unavailable):
        getattr(make_client(server.url, retries=QUICK).operations, call)(1)

    assert len(server.requests) == 1


def test_any_request_is_repeated_that_never_left(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[int] = []

    def note(self: Retries, attempt: int, retry_after: float | None = None) -> float | None:
        delays.append(attempt)
        return 0.001 if attempt < 3 else None

    monkeypatch.setattr(Retries, "delay", note)
    with deaf_port() as port:
        url = f"http://127.0.0.1:{port}"
        expected = f"^no service answers at {url} .*: start one with lakehand serve"
        with pytest.raises(Unavailable, match=expected) as away:
            make_client(url).operations.submit(1, "compaction")

    assert delays == [1, 2, 3]
    assert away.value.status is None


@pytest.mark.timeout(120)
def test_silence_ends_at_the_timeout_of_the_call(make_client: MakeClient) -> None:
    """And not at that of the client, which is longer than this test may take."""
    with little_server(SILENCE) as server:
        client = make_client(server.url, retries=NO_RETRIES, timeout=3600.0)
        with pytest.raises(Unavailable, match="did not answer in time: try again, or see its log"):
            client.with_options(timeout=0.05).version()


def test_the_time_that_the_service_asks_for_is_given_to_it() -> None:
    retries = Retries(attempts=9, first=0.25, longest=10)

    assert retries.delay(1, retry_after=2.0) == 2.0
    assert retries.delay(1, retry_after=11.0) is None
    assert all(0.125 <= (retries.delay(1) or 0) <= 0.25 for _ in range(100))
    assert all(5 <= (retries.delay(8) or 0) <= 10 for _ in range(100))
    assert len({retries.delay(3) for _ in range(100)}) > 90, "jitter"
    assert retries.delay(9) is None


def test_retry_after_reaches_the_decision(make_client: MakeClient) -> None:
    busy = answer("503 Service Unavailable", "{}", Retry_After="60")
    with little_server(busy, VERSION) as server, pytest.raises(Unavailable):
        make_client(server.url, retries=QUICK).version()

    assert len(server.requests) == 1, "a minute is longer than the longest delay"


def test_what_is_not_json_is_no_answer_of_a_service(make_client: MakeClient) -> None:
    said = "did not answer with JSON: is it the address of a Lakehand service"
    with little_server(answer(body="<html>a portal</html>")) as server, pytest.raises(RequestFailed, match=said):
        make_client(server.url).version()


def test_a_client_with_options_keeps_the_connections_of_its_owner_open(url: str) -> None:
    client = LakehandClient(url).with_options(timeout=20)

    assert client.version().name == "lakehand"
    client.close()
