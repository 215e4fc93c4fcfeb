# SPDX-License-Identifier: Apache-2.0
"""The service in a process of its own: it says where it is, and ends cleanly when asked."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.kit.polling import wait_for

pytestmark = pytest.mark.server
PROGRAM = """
import sys
from lakehand.app.server import serve
from lakehand.app.settings import load
serve(load({"home": sys.argv[1], "port": int(sys.argv[2])}))
"""
TIMEOUT = 60.0  # seconds


class Process:
    def __init__(self, home: Path, port: int = 0, *, limit_files: int | None = None) -> None:
        self.home = home
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHAND_")}
        self.process = subprocess.Popen(
            [*limited(limit_files), sys.executable, "-c", PROGRAM, str(home), str(port)],
            env=environment, cwd=home.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def url(self) -> str:
        wait_for(self.has_address, "the address", TIMEOUT, pace=0.02)
        address = json.loads((self.home / "address.json").read_text())
        assert address["pid"] == self.process.pid
        return str(address["url"])

    def has_address(self) -> bool:
        assert self.process.poll() is None, self.process.communicate()
        return (self.home / "address.json").exists()

    def end(self, number: signal.Signals) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, errors = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out, errors


def limited(files: int | None) -> list[str]:
    """A shell that allows so many open files, and becomes the program."""
    return [] if files is None else ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path / "home")
    yield process
    process.process.kill()
    process.process.wait()
    for stream in (process.process.stdout, process.process.stderr):
        assert stream is not None
        stream.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_ends_cleanly(running: Process, number: signal.Signals) -> None:
    url = running.url()
    with httpx.Client(base_url=url) as client:
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").json()["parts"]["database"] == "ok"
        assert client.get("/health/live", headers={"Host": "rebound.attacker.example"}).status_code == 421

        code, out, errors = running.end(number)

    assert (code, out) == (0, f"lakehand is ready on {url}\n")
    assert "Traceback" not in errors
    assert not (running.home / "address.json").exists()


def test_a_port_that_is_taken_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        second = Process(tmp_path / "home", port)
        _, errors = second.process.communicate(timeout=TIMEOUT)

    assert second.process.returncode != 0
    assert f"cannot listen on 127.0.0.1:{port}" in errors
    assert not (tmp_path / "home").exists()


def test_two_processes_do_not_share_a_home(running: Process) -> None:
    running.url()

    second = Process(running.home)
    _, errors = second.process.communicate(timeout=TIMEOUT)

    assert second.process.returncode != 0
    assert "another Lakehand runs with the home" in errors
    assert (running.home / "address.json").exists()


def test_a_head_without_end_is_cut_off(running: Process) -> None:
    address = httpx.URL(running.url())
    with socket.create_connection((address.host, address.port or 0)) as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nX-Long: ")
        answer = pour(connection)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 431")
    assert httpx.get(address.join("/health/live"), headers={"X-Long": "x" * 100_000}).status_code == 200


def pour(connection: socket.socket) -> bytes:
    """Send until the other side has had enough: its last words, or none."""
    try:
        for _ in range(1000):
            connection.sendall(b"x" * 65536)
    except OSError:
        pass
    else:
        pytest.fail("64 MB of one header were taken")
    try:
        return connection.recv(1000)
    except OSError:
        return b""
