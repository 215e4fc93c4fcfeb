# SPDX-License-Identifier: Apache-2.0
"""Changes tables and sends their events: some doubled, late or out of order; what was not answered is sent again.

``python -m bench.event_stream STREAM`` reads a stream as JSON. It prints how many events were answered, line by line.
"""

import asyncio
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import uvloop

from bench.event_requests import event_request
from bench.idle_tables import COMPLETED, INSTANT
from bench.load import answer_size

LATE = 2000  # events by which a late one comes later
PLANS = (2, 5)  # the changes of a table that come with a plan
PAUSE = 0.05  # seconds before a request is sent again
DEADLINE = 30.0  # seconds for one answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    home: str  # of the service: its address changes when it is started again
    tables: list[str]
    events: int
    batch: int
    connections: int
    doubled: float  # shares of all events
    late: float
    swapped: float
    planned: int = 0  # of the tables: so many get plans, each of which needs an operation
    seed: int = 7


class Sent(NamedTuple):
    id: int
    location: str


def change(location: str, version: int) -> None:
    """One more commit of the table, in one step: the completed instant gets another time of completion."""
    timeline = Path(location, ".hoodie", "timeline")
    old, new = (timeline / f"{INSTANT}_{int(COMPLETED) + number}.deltacommit" for number in (version - 1, version))
    old.rename(new)


def plan(location: str, version: int) -> None:
    """A writer's compaction plan, without anything in it: enough to be stored as an operation."""
    instant = int(INSTANT) + 1000 * version
    Path(location, ".hoodie", "timeline", f"{instant}.compaction.requested").touch()


def events_of(stream: Stream) -> Iterator[Sent]:
    """Every event after its change. The events of one table come mixed with those of all others."""
    chance, ids = random.Random(stream.seed), count(1)
    versions, planned = dict.fromkeys(stream.tables, 0), frozenset(stream.tables[: stream.planned])
    later: list[tuple[int, Sent]] = []  # in the order in which they are due
    held: Sent | None = None
    sent = 0
    while sent < stream.events:
        if later and later[0][0] <= sent:
            yield later.pop(0)[1]
            sent += 1
            continue
        location = chance.choice(stream.tables)
        versions[location] += 1
        if versions[location] in PLANS and location in planned:
            plan(location, versions[location])
        change(location, versions[location])
        event, fate = Sent(next(ids), location), chance.random()
        if fate < stream.doubled / 2:  # each makes two of the doubled ones
            later.append((sent + LATE, event))
        elif fate < stream.doubled / 2 + stream.late:
            later.append((sent + LATE, event))
            continue
        elif held is None and fate < stream.doubled / 2 + stream.late + stream.swapped:
            held = event
            continue
        yield event
        sent += 1
        if held is not None:
            yield held
            held, sent = None, sent + 1
    yield from ([held] if held else [])
    yield from (event for _, event in later)


class Sender:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.events = events_of(stream)
        self.address = Path(stream.home, "address.json")
        self.answered = self.again = self.refused = 0

    async def run(self) -> None:
        await asyncio.gather(*(self.connection() for _ in range(self.stream.connections)))
        print(json.dumps({"answered": self.answered, "again": self.again, "refused": self.refused}), flush=True)

    async def connection(self) -> None:
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while batch := list(islice(self.events, self.stream.batch)):
            answer, failures = None, 0
            while answer is None:
                try:
                    streams = streams or await self.connect()
                    answer = await asyncio.wait_for(ask(streams, event_request(batch)), DEADLINE)
                except (OSError, RuntimeError, ValueError, EOFError, asyncio.TimeoutError):
                    streams, failures = None, failures + 1
                    await asyncio.sleep(PAUSE)
            self.again += len(batch) if failures else 0
            self.note(len(batch), json.loads(answer))

    def note(self, events: int, counts: dict[str, int]) -> None:
        self.answered += events
        self.refused += counts["refused"]
        print(self.answered, flush=True)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        url = json.loads(self.address.read_text())["url"]
        return await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))


async def ask(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes) -> bytes:
    reader, writer = streams
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    size = answer_size(head)
    assert size is not None
    return await reader.readexactly(size - len(head))


if __name__ == "__main__":
    loop = uvloop.new_event_loop()
    loop.run_until_complete(Sender(Stream(**json.loads(sys.stdin.read()))).run())
    loop.close()
