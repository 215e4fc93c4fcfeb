# SPDX-License-Identifier: Apache-2.0
"""Open pages as browsers keep them: a stream each, and a fetch when something changed. A process of its own.

``python -m bench.browsers URL COUNT`` opens them, prints a line when all are open, and runs until it is ended; then it
prints how many pages were fetched.
"""

import asyncio
import signal
import sys

import httpx

FLEET_PAUSE = 3.0  # seconds, as in live.js


async def watch(client: httpx.AsyncClient, is_open: asyncio.Event, fetched: list[int]) -> None:
    async with client.stream("GET", "/live", params={"about": "fleet"}, timeout=None) as stream:
        is_open.set()
        async for line in stream.aiter_lines():
            if line == "event: changed":
                answer = await client.get("/", headers={"X-Live": "1"})
                fetched.append(len(answer.content))
                await asyncio.sleep(FLEET_PAUSE)


async def main(url: str, count: int) -> None:
    limits = httpx.Limits(max_connections=2 * count, max_keepalive_connections=2 * count)
    fetched: list[int] = []
    opened = [asyncio.Event() for _ in range(count)]
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=30) as client:
        tasks = [asyncio.create_task(watch(client, one, fetched)) for one in opened]
        await asyncio.gather(*(one.wait() for one in opened))
        sys.stdout.write("open\n")
        sys.stdout.flush()
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        await ended.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    sys.stdout.write(f"{len(fetched)}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
