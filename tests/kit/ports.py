# SPDX-License-Identifier: Apache-2.0
"""Ports that no other test gets meanwhile, though many run at once."""

import os
import random
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that refuses connections: it is bound, and does not listen."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield int(one.getsockname()[1])


PROCESSES = 8  # that run tests at once, each with ports of its own
_given: set[int] = set()


def quiet_port() -> int:
    """A free port below those that the system gives to whoever asks for any, never given before by this process."""
    number = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0) % PROCESSES
    while True:
        port = random.SystemRandom().randrange(20_000 + number, 32_000, PROCESSES)
        if port in _given:
            continue
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            _given.add(port)
            return port
