# SPDX-License-Identifier: Apache-2.0
"""HTTPS from real sockets: certificates that change while it runs, old versions, slow handshakes, plain requests."""

import logging
import select
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import copyfile

import httpx
import pytest
import trustme
from typer.testing import CliRunner

from lakehand.app.bounded_http import Bounds
from lakehand.app.tls import HSTS, Certificates
from lakehand.cli import app
from lakehand.rest import ApiContext
from lakehand.store import open_store
from tests.app.test_server import Process
from tests.kit.polling import wait_for
from tests.rest.parts import context_over, items, serving, wire

TIMEOUT = 30.0  # seconds
GET = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF_A_HEAD = GET[:-4]


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def context(sqlite_template: Path, tmp_path: Path) -> Iterator[ApiContext]:
    store = open_store(f"sqlite:///{copyfile(sqlite_template, tmp_path / 'lakehand.db')}")
    yield context_over(store)
    store.close()


@pytest.fixture
def files(ca: trustme.CA, tmp_path: Path) -> tuple[Path, Path]:
    pair = tmp_path / "tls.crt", tmp_path / "tls.key"
    issue(ca, *pair)
    return pair


@pytest.fixture
def certificates(files: tuple[Path, Path]) -> Iterator[Certificates]:
    with Certificates(*files, interval=0.02) as running:
        yield running


@pytest.fixture
def trust(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


def issue(ca: trustme.CA, certificate: Path, key: Path) -> None:
    """Each file appears at once, as by rename."""
    made = ca.issue_cert("127.0.0.1", "localhost")
    for file, content in (
        (key, made.private_key_pem.bytes()),
        (certificate, b"".join(blob.bytes() for blob in made.cert_chain_pems)),
    ):
        fresh = file.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.chmod(0o600)
        fresh.replace(file)


def address_of(client: httpx.Client) -> tuple[str, int]:
    return client.base_url.host, client.base_url.port or 0


def shake_hands(client: httpx.Client, trust: ssl.SSLContext) -> ssl.SSLSocket:
    return trust.wrap_socket(socket.create_connection(address_of(client), TIMEOUT), server_hostname="127.0.0.1")


def certificate_now(client: httpx.Client, trust: ssl.SSLContext) -> bytes:
    """What a new handshake shows."""
    with shake_hands(client, trust) as connection:
        return connection.getpeercert(binary_form=True) or b""


def answer_of(connection: ssl.SSLSocket) -> bytes:
    connection.sendall(GET)
    reply = b""
    while b'"ok"}' not in reply:
        more = connection.recv(4096)
        assert more, reply
        reply += more
    return reply


@contextmanager
def silent(client: httpx.Client, count: int, begin: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections that never end their handshake."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(address_of(client), TIMEOUT)) for _ in range(count)]
        for one in sockets:
            with suppress(OSError):
                one.sendall(begin)
        yield sockets


def closed(sockets: list[socket.socket]) -> int:
    readable, _, _ = select.select(sockets, [], [], 0)
    return len(readable)


def rest_of_answer(connection: socket.socket) -> bytes:
    reply = b""
    with suppress(ConnectionResetError, ssl.SSLEOFError):
        while more := connection.recv(4096):
            reply += more
    return reply


def test_requests_are_answered_and_browsers_are_told_to_come_back_with_https(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext
) -> None:
    with serving(context, certificates=certificates, trust=trust) as client:
        for path in ("/health/live", "/api/v1/tables", "/api/v1/tables/77", wire()):
            assert client.get(path).headers[HSTS[0]] == HSTS[1]
        assert client.get(wire()).json()["stored"] is True
        assert len(items(client, "/api/v1/tables")) == 1
    with serving(context) as client:
        assert HSTS[0] not in client.get("/health/live").headers


def test_a_large_body_that_comes_with_the_end_of_the_handshake_is_read(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext
) -> None:
    body = b'{"commitTime": "1", "padding": "' + b"x" * 2_000_000 + b'"}'
    head = b"POST /v1/hoodie/service/callback HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with serving(context, certificates=certificates, trust=trust) as client:
        for _ in range(20):
            with shake_hands(client, trust) as connection:
                connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                assert connection.recv(4096).startswith(b"HTTP/1.1 200 OK")


def test_plain_http_is_refused_with_advice(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(context, certificates=certificates, trust=trust) as client:
        answer = httpx.get(str(client.base_url.copy_with(scheme="http")), timeout=TIMEOUT)
        assert (answer.status_code, answer.headers["connection"]) == (400, "close")
        assert "use https://" in answer.text
        assert client.get("/health/live").status_code == 200
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("start", [b"\x16", b"\x16\x03\x01\x00\xff" + b"\xff" * 300, b"\x16" * 100_000])
def test_a_broken_handshake_ends_its_own_connection_only(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext, start: bytes
) -> None:
    with serving(context, Bounds(handshake=1), certificates=certificates, trust=trust) as client:
        with silent(client, 1, start) as [odd]:
            assert not rest_of_answer(odd).startswith(b"HTTP")
        assert client.get("/health/live").status_code == 200


def test_a_client_that_leaves_in_its_handshake_is_forgotten(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext
) -> None:
    bounds = Bounds(total=50, per_client=50)
    with serving(context, bounds, certificates=certificates, trust=trust) as client:
        for begin in (b"", b"\x16\x03\x01") * 5:
            with silent(client, 20, begin):
                pass
            assert client.get("/health/live").status_code == 200
        assert 'reason="connections"' not in client.get("/metrics").text


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_older_versions_than_tls_1_2_are_refused(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext
) -> None:
    with serving(context, certificates=certificates, trust=trust) as client:
        trust.maximum_version = ssl.TLSVersion.TLSv1_2
        trust.set_alpn_protocols(["h2", "http/1.1"])
        with shake_hands(client, trust) as connection:
            assert (connection.version(), connection.selected_alpn_protocol()) == ("TLSv1.2", "http/1.1")
        trust.set_ciphers("DEFAULT:@SECLEVEL=0")
        shake_hands(client, trust).close()
        trust.minimum_version = trust.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            shake_hands(client, trust)
    assert certificates.current.context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_changed_certificate_is_used_for_new_connections_and_open_ones_go_on(
    context: ApiContext, ca: trustme.CA, files: tuple[Path, Path], certificates: Certificates, trust: ssl.SSLContext
) -> None:
    with serving(context, certificates=certificates, trust=trust) as client, shake_hands(client, trust) as before:
        assert answer_of(before).startswith(b"HTTP/1.1 200 OK")
        old = before.getpeercert(binary_form=True)
        assert certificate_now(client, trust) == old

        issue(ca, *files)

        wait_for(lambda: certificate_now(client, trust) != old, "the new certificate", TIMEOUT)
        assert answer_of(before).startswith(b"HTTP/1.1 200 OK")
        assert certificates.current.certificate == files[0].read_bytes()


def test_a_certificate_that_is_exchanged_by_a_link_is_used(
    context: ApiContext, ca: trustme.CA, tmp_path: Path, trust: ssl.SSLContext
) -> None:
    """As in a mounted secret: the files are links through one that is replaced."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        issue(ca, tmp_path / folder / "tls.crt", tmp_path / folder / "tls.key")
    current = tmp_path / "current"
    current.symlink_to("one")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"current/{name}")

    with Certificates(tmp_path / "tls.crt", tmp_path / "tls.key", interval=0.02) as certificates:
        (tmp_path / "next").symlink_to("two")
        (tmp_path / "next").replace(current)

        expected = (tmp_path / "two" / "tls.crt").read_bytes()
        wait_for(lambda: certificates.current.certificate == expected, "the new certificate", TIMEOUT)
        with serving(context, certificates=certificates, trust=trust) as client:
            assert client.get("/health/live").status_code == 200


@pytest.mark.parametrize("bound", [Bounds(handshake=0.2), Bounds(head=0.2)], ids=["handshake", "head"])
def test_connections_that_say_nothing_are_cut_off_in_time(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext, bound: Bounds
) -> None:
    with serving(context, bound, certificates=certificates, trust=trust) as client:
        if bound.handshake < 1:
            with silent(client, 3) as sockets, silent(client, 1, b"\x16\x03\x01") as [half]:
                assert [rest_of_answer(one) for one in (*sockets, half)] == [b""] * 4
            assert 'reason="slow-handshake"} 4.0' in client.get("/metrics").text
        else:
            with shake_hands(client, trust) as connection:
                connection.sendall(HALF_A_HEAD)
                assert rest_of_answer(connection).startswith(b"HTTP/1.1 408")


def test_stuck_handshakes_make_room_for_whole_requests(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext
) -> None:
    bounds = Bounds(total=40, per_client=20)
    with serving(context, bounds, certificates=certificates, trust=trust) as client, silent(client, 60) as sockets:
        for _ in range(5):
            with httpx.Client(base_url=client.base_url, verify=trust) as fresh:
                assert fresh.get("/health/live").status_code == 200
        wait_for(lambda: closed(sockets) >= 40, "sockets to be closed", TIMEOUT)
        assert 'reason="connections"' in client.get("/metrics").text


def test_connections_after_their_handshake_are_bounded_too(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext
) -> None:
    bounds = Bounds(total=40, per_client=20)
    with serving(context, bounds, certificates=certificates, trust=trust) as client, ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(shake_hands(client, trust)).sendall(HALF_A_HEAD)
        assert client.get("/health/live").status_code == 200
        assert 'reason="connections"' in client.get("/metrics").text


def test_a_handshake_that_has_ended_holds_no_slot(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext
) -> None:
    bounds = Bounds(total=40, per_client=20)
    with serving(context, bounds, certificates=certificates, trust=trust) as client:
        for _ in range(60):
            with shake_hands(client, trust) as connection:
                assert answer_of(connection)
        assert 'reason="connections"' not in client.get("/metrics").text


def test_a_stuck_handshake_does_not_hold_up_the_end(
    context: ApiContext, certificates: Certificates, trust: ssl.SSLContext
) -> None:
    with ExitStack() as stack:
        with serving(context, certificates=certificates, trust=trust) as client:
            [stuck] = stack.enter_context(silent(client, 1))
            assert client.get("/health/live").status_code == 200
        assert rest_of_answer(stuck) == b""


@pytest.mark.server
def test_a_service_with_a_certificate_announces_https_and_the_command_trusts_its_ca(
    ca: trustme.CA, files: tuple[Path, Path], tmp_path: Path, trust: ssl.SSLContext
) -> None:
    home, roots = tmp_path / "home", tmp_path / "ca.pem"
    home.mkdir(mode=0o700)
    (home / "lakehand.toml").write_text(f'tls-certificate = "{files[0]}"\ntls-key = "{files[1]}"\n')
    (home / "lakehand.toml").chmod(0o600)
    ca.cert_pem.write_to_path(str(roots))
    process = Process(home)
    try:
        url = process.url()
        assert url.startswith("https://127.0.0.1:")
        page = httpx.get(f"{url}/service", verify=trust, timeout=TIMEOUT)
        assert (page.status_code, page.headers[HSTS[0]]) == (200, HSTS[1])
        command = ["fleet", "--json", "--url", url]
        trusting = CliRunner().invoke(app, [*command, "--ca-file", str(roots)])
        assert (trusting.exit_code, '"tables"' in trusting.output) == (0, True), trusting.output
        by_variable = CliRunner().invoke(app, command, env={"LAKEHAND_CA_FILE": str(roots)})
        assert by_variable.exit_code == 0, by_variable.output
        wary = CliRunner().invoke(app, command, env={"COLUMNS": "500"})
        assert wary.exit_code == 1
        assert "--ca-file" in wary.output
    finally:
        code, out, _ = process.end(signal.SIGTERM)
    assert (code, out) == (0, f"lakehand is ready on {url}\n")
