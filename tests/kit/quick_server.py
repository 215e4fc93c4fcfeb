# SPDX-License-Identifier: Apache-2.0
"""An HTTP server in a thread of the test's process that starts and ends within milliseconds."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn

from tests.kit.polling import wait_for

TIMEOUT = 30.0  # seconds until a thread that does not end is left to whoever looks for what tests leave behind


class QuickServer(uvicorn.Server):
    """uvicorn looks ten times a second whether it should end, and then as often whether connections are closed."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.was_stopped = asyncio.Event()

    @property
    def port(self) -> int:
        found: int = self.servers[0].sockets[0].getsockname()[1]
        return found

    def stop(self) -> None:
        self.should_exit = True
        if self.loop is not None:
            with suppress(RuntimeError):  # it is closed: the server has ended by itself
                self.loop.call_soon_threadsafe(self.was_stopped.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.was_stopped.wait(), 1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        while state.connections or state.tasks:
            if state.tasks:
                await asyncio.wait(state.tasks)
            await asyncio.sleep(0)
        await self.lifespan.shutdown()


@contextmanager
def in_thread(server: QuickServer) -> Iterator[int]:
    """The port at which it serves."""
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive(), "the server to listen", pace=0.002)
        assert server.started
        yield server.port
    finally:
        server.stop()
        thread.join(TIMEOUT)
