# SPDX-License-Identifier: Apache-2.0
"""The watch over ports sees what it is there for: also a server that other machines could reach for a moment."""

import os
import subprocess
import sys

import pytest

from lakehand.testing import eventually
from tests.listeners import PortWatch, address_of, is_loopback, listeners_of

SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET) as s:
    print(s.getsockname()[1], flush=True)
    sys.stdin.readline()
sys.stdin.readline()
"""


def serve_on(address: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, address],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.mark.server
@pytest.mark.parametrize(
    ("address", "is_open"), [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("::1", False)]
)
def test_a_port_is_open_to_others_unless_it_is_on_loopback(address: str, is_open: bool) -> None:
    with serve_on(address) as server, PortWatch(lambda: server.pid) as ports:
        assert server.stdout is not None
        assert server.stdin is not None
        port = int(server.stdout.readline())
        eventually(lambda: ports.seen)
        server.stdin.write("\n\n")
        server.stdin.close()
    assert {number for _, number in ports.seen} == {port}
    assert bool(ports.open_to_others) is is_open


@pytest.mark.server
def test_the_ports_of_another_session_are_not_reported() -> None:
    with serve_on("127.0.0.1") as server:
        assert server.stdout is not None
        assert server.stdin is not None
        port = int(server.stdout.readline())
        mine = listeners_of(os.getsid(0))
        server.stdin.write("\n\n")
        server.stdin.close()
    assert port not in {number for _, number in mine}


@pytest.mark.parametrize(("address", "expected"), [("127.0.0.53", True), ("::1", True), ("10.0.0.1", False)])
def test_all_of_loopback_is_loopback(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


def test_java_binds_to_loopback_by_an_address_of_the_other_kind() -> None:
    assert address_of("0000000000000000FFFF00000100007F:1F90") == ("127.0.0.1", 8080)
