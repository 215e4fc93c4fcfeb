# SPDX-License-Identifier: Apache-2.0
"""The load: keep-alive connections that each ask, wait for the answer and ask again. A process of its own, kept lean.

``python -m bench.load LOAD`` reads a load as JSON and prints what it saw as JSON.
"""

import asyncio
import json
import random
import resource
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, cast
from urllib.parse import urlencode

import uvloop

from bench.event_requests import event_request

Ask = Callable[[], bytes]
BARE, ROUTED, FRESH, REPEATED = "bare", "routed", "fresh", "repeated"
EVENTS = "events"  # commit events, as many in a request as ``Load.batch`` says
PATHS = {BARE: "/v1/hoodie/service/empty", ROUTED: "/health/live"}
STORED = {EVENTS: b'"refused":0'}  # what the answer has when everything was stored; otherwise:
TRUE = b'"stored":true'


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    port: int
    kind: str
    seconds: float
    connections: int
    locations: list[str]
    first: int = 0  # number of the first instant
    batch: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    answers: int
    not_stored: int
    seconds: float
    cpu: float  # seconds of this process: well below ``seconds``, or the load was the limit
    latencies: list[float]  # seconds, sorted

    @property
    def rate(self) -> float:
        return self.answers / self.seconds


def drive(load: Load) -> Seen:
    """Run the load in its own process."""
    command = [sys.executable, "-m", "bench.load", json.dumps(asdict(load))]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the load failed: {done.stderr.decode(errors='replace')[-2000:]}")
    return Seen(**json.loads(done.stdout))


class Connection(asyncio.Protocol):
    """Asks as soon as it was answered. Answers are small and not split, but the code does not rely on it."""

    def __init__(self, ask: Ask, latencies: "array[float]", until: float, stored: bytes = TRUE) -> None:
        self.ask = ask
        self.stored = stored
        self.latencies = latencies
        self.until = until
        self.not_stored = 0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.buffer = b""
        self.asked = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.send()

    def send(self) -> None:
        request = self.ask()
        self.asked = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        size = answer_size(self.buffer)
        if size is None or len(self.buffer) < size:
            return
        now = time.perf_counter()
        self.latencies.append(now - self.asked)
        if self.stored not in self.buffer:
            self.not_stored += 1
        self.buffer = b""
        if now < self.until:
            self.send()
        else:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_exception(error) if error else self.closed.set_result(None)


def answer_size(data: bytes) -> int | None:
    """Of the whole answer, once its head is there."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    if not data.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")):
        raise RuntimeError(f"not answered with 200 or 202: {data[:300]!r}")
    at = data.find(b"content-length: ")
    return end + 4 + int(data[at + 16 : data.find(b"\r\n", at)])


def asking(load: Load) -> Ask:
    """What the next request is. An empty handler gets requests of the same shape and size."""
    if load.kind == EVENTS:
        return asking_events(load)
    path = PATHS.get(load.kind, "/v1/hoodie/service/compact")
    parts = [request_parts(path, location) for location in load.locations]
    choose = random.Random(load.first).choice
    if load.kind == REPEATED:
        few = [head + instant(0) + tail for head, tail in parts]
        return lambda: choose(few)
    numbers = count(load.first)

    def fresh() -> bytes:
        head, tail = choose(parts)
        return head + instant(next(numbers)) + tail

    return fresh


def request_parts(path: str, location: str) -> tuple[bytes, bytes]:
    """A request as Hudi's client writes it, around its instant."""
    before = urlencode({"resource": "spark:4g,4g", "basepath": location, "parallelism": 100, "action": "REQUEST"})
    name = urlencode({"table_name": location.rpartition("/")[2], "queue": "default"})
    head = f"GET {path}?execution_engine=spark&extra_params=&db_name&{before}&{name}&instant="
    tail = (
        "&username=default HTTP/1.1\r\nHost: localhost:9091\r\nConnection: Keep-Alive\r\n"
        "User-Agent: Apache-HttpClient/4.5.14 (Java/17.0.15)\r\nAccept-Encoding: gzip,deflate\r\n\r\n"
    )
    return head.encode(), tail.encode()


def asking_events(load: Load) -> Ask:
    """Each event has another id; a batch is about as many tables."""
    choose, numbers = random.Random(load.first).choice, count(load.first)

    def ask() -> bytes:
        return event_request([(next(numbers), choose(load.locations)) for _ in range(load.batch)])

    return ask


def instant(number: int) -> bytes:
    """A time of the year 2024 with milliseconds, another one for each number."""
    seconds, millis = divmod(number, 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return b"2024%02d%02d%02d%02d%02d%03d" % (days // 28 % 12 + 1, days % 28 + 1, hour, minute, second, millis)


async def run(load: Load) -> dict[str, Any]:
    latencies: array[float] = array("d")
    loop, ask, stored = asyncio.get_running_loop(), asking(load), STORED.get(load.kind, TRUE)
    began = time.perf_counter()
    until = began + load.seconds
    opened = [
        await loop.create_connection(lambda: Connection(ask, latencies, until, stored), "127.0.0.1", load.port)
        for _ in range(load.connections)
    ]
    connections = [connection for _, connection in opened]
    await asyncio.gather(*(connection.closed for connection in connections))
    took = time.perf_counter() - began
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "answers": len(latencies),
        "not_stored": 0 if load.kind in PATHS else sum(connection.not_stored for connection in connections),
        "seconds": took,
        "cpu": usage.ru_utime + usage.ru_stime,
        "latencies": sorted(latencies),
    }


def main(load: Load) -> None:
    loop = uvloop.new_event_loop()
    json.dump(loop.run_until_complete(run(load)), sys.stdout)
    loop.close()


if __name__ == "__main__":
    main(Load(**json.loads(sys.argv[1])))
