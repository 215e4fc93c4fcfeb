# SPDX-License-Identifier: Apache-2.0
"""Slow and half-open connections, from real sockets: they are closed, and everybody else is answered."""

import logging
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import copyfile
from threading import Event

import httpx
import pytest

from lakehand.app.bounded_http import MOST_PIPELINED, Bounds, Connections, Wait, client_group
from lakehand.app.server import SEND_BUFFER, listen
from lakehand.app.settings import Settings
from lakehand.rest import ApiContext
from lakehand.store import open_store
from tests.app.test_server import Process
from tests.kit.polling import wait_for
from tests.rest.parts import context_over, items, serving, wire, with_services

TIMEOUT = 30.0  # seconds
HALF_A_HEAD = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_A_BODY = (
    b"POST /api/v1/tables HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)


@pytest.fixture
def context(sqlite_template: Path, tmp_path: Path) -> Iterator[ApiContext]:
    store = open_store(f"sqlite:///{copyfile(sqlite_template, tmp_path / 'lakehand.db')}")
    yield context_over(store)
    store.close()


@contextmanager
def half_open(client: httpx.Client, count: int, begin: bytes) -> Iterator[list[socket.socket]]:
    address = (client.base_url.host, client.base_url.port or 0)
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(address)) for _ in range(count)]
        for one in sockets:
            with suppress(OSError):  # it may be closed already, for those that came after it
                one.sendall(begin)
        yield sockets


def rest_of_answer(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    connection.settimeout(TIMEOUT)
    reply = b""
    try:
        while more := connection.recv(1000):
            reply += more
    except ConnectionResetError:
        pass
    return reply


def closed(sockets: list[socket.socket]) -> int:
    readable, _, _ = select.select(sockets, [], [], 0)
    return len(readable)


def test_a_head_that_does_not_end_is_cut_off_in_time(context: ApiContext, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with serving(context, Bounds(head=0.2)) as client, half_open(client, 3, HALF_A_HEAD) as sockets:
        assert [rest_of_answer(one).split(b"\r\n")[0] for one in sockets] == [b"HTTP/1.1 408 Request Timeout"] * 3
        assert 'lakehand_refusals_total{name="127.0.0.1",reason="slow-head"} 3.0' in client.get("/metrics").text

    assert [r.__dict__["what"] for r in caplog.records if "refused" in r.__dict__] == ["127.0.0.1"]


def test_a_head_is_not_given_more_time_for_sending_a_byte_now_and_then(context: ApiContext) -> None:
    with serving(context, Bounds(head=0.5)) as client, half_open(client, 1, HALF_A_HEAD) as [slow]:

        def is_cut() -> bool:
            try:
                slow.sendall(b"x")
            except OSError:
                return True
            return closed([slow]) == 1

        wait_for(is_cut, "the connection to be cut", TIMEOUT)


def test_a_connection_that_sends_nothing_is_cut_off_in_time(context: ApiContext) -> None:
    with serving(context, Bounds(head=0.2)) as client, half_open(client, 1, b"") as [silent]:
        assert rest_of_answer(silent).startswith(b"HTTP/1.1 408")


def test_a_body_that_does_not_end_is_cut_off_in_time_and_changes_nothing(context: ApiContext) -> None:
    whole = b'{"location": "/data/trips", "action_types": ["compaction"]}'
    begin = HALF_A_BODY[:-1].replace(b"100", b"%d" % (len(whole) + 1)) + whole  # but for one byte

    with serving(context, Bounds(body=0.2)) as client, half_open(client, 1, begin) as [slow]:
        assert rest_of_answer(slow) == b""
        assert items(client, "/api/v1/tables") == []
        assert 'reason="slow-body"' in client.get("/metrics").text


@pytest.mark.server
def test_an_answer_that_nobody_reads_is_cut_off_in_time(context: ApiContext) -> None:
    with serving(context, Bounds(reading=0.2)) as client, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((client.base_url.host, client.base_url.port or 0))
        deaf.setblocking(False)

        def is_cut() -> bool:
            with suppress(OSError):
                deaf.send(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            return 'reason="slow-reader"' in client.get("/metrics").text

        wait_for(is_cut, "the connection to be cut", TIMEOUT)


def test_half_heads_that_hold_too_much_memory_together_are_cut(context: ApiContext) -> None:
    """However many connections are allowed."""
    large = HALF_A_HEAD + b"x" * 60_000
    with serving(context, Bounds(held=200_000)) as client, half_open(client, 10, large) as sockets:
        wait_for(lambda: closed(sockets) == 7, "all but three to be cut", TIMEOUT)
        assert 'lakehand_refusals_total{name="127.0.0.1",reason="memory"} 7.0' in client.get("/metrics").text


class Reader:
    """A connection whose client does not read."""

    group = "10.0.0.5"

    def __init__(self) -> None:
        self.is_cut = False

    def is_closing(self) -> bool:
        return self.is_cut

    def give_up(self, wait: Wait) -> None:
        self.cut()

    def cut(self) -> None:
        self.is_cut = True


def test_of_unread_answers_that_are_too_large_together_the_eldest_are_cut(context: ApiContext) -> None:
    connections = Connections(Bounds(held=1000), context.refusals)
    readers = [Reader() for _ in range(4)]
    for one in readers:
        connections.admit(one)
        connections.waits(one, Wait.READING)
        connections.holds(one, 300)

    assert [one.is_cut for one in readers] == [True, False, False, False]
    connections.waits(readers[1], Wait.NOTHING)  # it has read on, and holds nothing
    connections.waits(readers[1], Wait.READING)
    connections.holds(readers[1], 500)
    assert [one.is_cut for one in readers] == [True, False, True, False]
    connections.lost(readers[3])
    connections.waits(readers[1], Wait.READING)
    connections.holds(readers[1], 1000)
    assert not readers[1].is_cut


def test_the_system_keeps_little_of_an_answer_for_a_client(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, port=0)
    with listen(settings) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * SEND_BUFFER  # Linux doubles it


@pytest.mark.parametrize("begin", [b"", HALF_A_HEAD, HALF_A_BODY])
def test_half_open_requests_make_room_for_whole_ones(
    context: ApiContext, begin: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with serving(context, Bounds(total=40, per_client=20)) as client, half_open(client, 60, begin) as sockets:
        for _ in range(5):
            with httpx.Client(base_url=client.base_url) as fresh:
                assert fresh.get("/health/live").status_code == 200
                assert fresh.get(wire()).json()["stored"] is True
        wait_for(lambda: closed(sockets) >= 40, "sockets to be closed", TIMEOUT)
        assert 'reason="connections"' in client.get("/metrics").text

    [line] = [r for r in caplog.records if r.__dict__.get("refused") == "connections"]
    assert line.__dict__["what"] == "127.0.0.1"


def test_a_request_that_is_being_answered_is_not_closed_for_another(context: ApiContext) -> None:
    begun, go_on = Event(), Event()

    def wait() -> dict[str, str]:
        begun.set()
        go_on.wait(TIMEOUT)
        return {"database": "ok"}

    bounds = Bounds(total=4, per_client=4)
    with serving(with_services(context, readiness=wait), bounds) as client, ThreadPoolExecutor(1) as pool:
        served = pool.submit(client.get, "/health/ready")
        assert begun.wait(TIMEOUT)
        with half_open(client, 10, HALF_A_HEAD) as sockets:
            wait_for(lambda: closed(sockets) >= 7, "sockets to be closed", TIMEOUT)
            go_on.set()
            assert served.result().status_code in (200, 503)


def test_requests_that_are_sent_all_at_once_are_bounded(context: ApiContext) -> None:
    with serving(context) as client, half_open(client, 1, b"") as [hasty]:
        hasty.sendall(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)

        assert rest_of_answer(hasty).count(b"HTTP/1.1 200 OK") <= MOST_PIPELINED + 1
        assert client.get("/health/live").status_code == 200


@pytest.mark.server
def test_a_thousand_half_open_requests_shut_nobody_out(tmp_path: Path) -> None:
    """With as many open files as most systems allow."""
    process = Process(tmp_path / "home", limit_files=1024)
    try:
        with httpx.Client(base_url=process.url(), timeout=TIMEOUT) as client:
            client.get("/health/live")
            with half_open(client, 1010, HALF_A_HEAD):
                for path in ("/health/live", "/health/ready", "/api/v1/tables"):
                    assert httpx.get(client.base_url.join(path), timeout=TIMEOUT).status_code == 200
            text = client.get("/metrics").text
        assert 'lakehand_refusals_total{name="127.0.0.1",reason="connections"}' in text
    finally:
        process.process.kill()
        _, errors = process.process.communicate()
    assert "too many connections" in errors


@pytest.mark.server
def test_the_limit_on_open_files_is_raised_or_the_bound_is_lowered() -> None:
    program = (
        "import resource; from lakehand.app.bounded_http import Bounds, fitting;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, ({}, {}));"
        "b = fitting(Bounds(total=2048, per_client=1024));"
        "print(b.total, b.per_client, resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    for soft, hard, expected in ((256, 4096, "2048 1024 2560"), (256, 1024, "512 256 1024"), (100, 100, "64 32 100")):
        command = [sys.executable, "-c", program.format(soft, hard)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.stdout.split() == expected.split(), run.stderr


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("10.0.0.5", "10.0.0.5"), ("::1", "::1"), ("2001:db8::1:2", "2001:db8::/64"), ("::ffff:10.0.0.5", "10.0.0.5"),
        ("", ""), ("unix", "unix"),
    ],
)  # fmt: skip
def test_the_addresses_of_one_client_count_together(address: str, group: str) -> None:
    assert client_group(address) == group
