# SPDX-License-Identifier: Apache-2.0
"""The ports that tests get are free, differ, and are none that the system gives to somebody else meanwhile."""

import random
import socket

import pytest

from tests.kit import ports
from tests.kit.ports import PROCESSES, deaf_port, quiet_port


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ports that chance will offer, one after the other."""
    numbers: list[int] = []
    monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: numbers.pop(0))
    monkeypatch.setattr(ports, "_given", set())
    return numbers


def test_a_port_is_free_and_below_those_of_the_system() -> None:
    port = quiet_port()

    assert 20_000 <= port < 32_000
    with socket.create_server(("127.0.0.1", port)) as server:
        assert server.getsockname() == ("127.0.0.1", port)


def test_no_port_is_given_twice(offered: list[int]) -> None:
    first, second = two_free_ports()
    offered += [first, first, first, second]

    assert [quiet_port(), quiet_port()] == [first, second]
    assert offered == []


def test_a_port_that_somebody_listens_on_is_not_given(offered: list[int]) -> None:
    taken, free = two_free_ports()
    offered += [taken, free]

    with socket.create_server(("127.0.0.1", taken)):
        assert quiet_port() == free


@pytest.mark.parametrize(("worker", "rest"), [("", 0), ("gw0", 0), ("gw1", 1), ("gw11", 3)])
def test_each_test_process_has_ports_of_its_own(worker: str, rest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)

    assert {quiet_port() % PROCESSES for _ in range(5)} == {rest}


def test_a_deaf_port_refuses_connections_and_is_nobody_elses() -> None:
    with deaf_port() as port, socket.socket() as other:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


def two_free_ports() -> tuple[int, int]:
    with deaf_port() as one, deaf_port() as other:
        return one, other
