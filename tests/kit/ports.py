# SPDX-License-Identifier: Apache-2.0
"""Ports that no other test gets meanwhile, though many run at once."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that refuses connections: it is bound, and does not listen."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield int(one.getsockname()[1])


def quiet_port() -> int:
    """A free port below those that the system gives to whoever asks for any."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
