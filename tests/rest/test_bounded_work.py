# SPDX-License-Identifier: Apache-2.0
"""No request keeps the others waiting: bodies, callbacks and addresses have bounds, and are read in small pieces."""

import asyncio
import json
import socket
from collections import Counter
from typing import ClassVar

import httpx
import pytest
from starlette.types import Message

from lakehand.domain.operations import MOST_UNFINISHED
from lakehand.rest import ApiContext, Security
from lakehand.rest.bodies import MOST_DELIMITERS, BoundedBodies
from lakehand.rest.wire import PIECE, HudiWire, TopTexts
from lakehand.rest.wire_requests import LONGEST_QUERY
from tests.rest.parts import LOCATION, items, kinds, wire

FIRST = 20261114000000000


def test_a_body_has_at_most_64_kilobytes_by_default(client: httpx.Client) -> None:
    body = {"location": LOCATION, "properties": {"note": "x" * 66_000}}

    answer = client.post("/api/v1/tables", json=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too-large")
    assert Security().max_body == 65536


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 50_000,
        b'{"a":' * 8_000,
        json.dumps({"location": LOCATION, "action_types": [""] * 5000}).encode(),
        json.dumps({str(number): 0 for number in range(5000)}).encode(),
    ],
)
def test_a_body_of_many_values_is_refused_before_it_is_read(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/api/v1/tables", content=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too-large")
    assert f"{MOST_DELIMITERS} values" in answer.json()["error"]["message"]


def test_a_thousand_instants_are_no_large_body(client: httpx.Client) -> None:
    instants = ",".join(str(FIRST + number) for number in range(1000))

    answer = client.post("/v1/hoodie/service/compact/submit", json={"table_name": "unknown", "instant": instants})

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not-found")


@pytest.mark.parametrize("count", [3_000, 4_000, 12_000])
def test_all_pending_instants_fit_into_one_address(client: httpx.Client, count: int) -> None:
    """Hudi's client sends them all at once, and its writer fails on any answer but 200."""
    address = wire(instant=",".join(str(FIRST + number) for number in range(count)))
    assert len(address) < LONGEST_QUERY

    answer = send(client, address)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"stored":true' in answer
    stored = [operation["instant"] for operation in items(client, "/api/v1/operations?limit=1000")]
    assert len(stored) == MOST_UNFINISHED


@pytest.mark.parametrize("size", [LONGEST_QUERY, 1_000_000, 5_000_000])
def test_an_address_over_the_bound_is_answered_with_200_and_noted(client: httpx.Client, size: int) -> None:
    long = send(client, wire(instant="2" * size))

    assert long.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"stored": false' in long
    assert str(LONGEST_QUERY).encode() in long
    assert "wire.too-long" in kinds(client)
    assert items(client, "/api/v1/tables") == []


def send(client: httpx.Client, address: str) -> bytes:
    """httpx itself takes no address of this length."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 0)) as connection:
        connection.settimeout(30)
        connection.sendall(f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        reply = b""
        while more := connection.recv(65536):
            reply += more
        return reply


class Counted(TopTexts):
    """Counts the pieces that were read in each turn of the event loop."""

    turn: ClassVar[int] = 0
    pieces: ClassVar[Counter[int]] = Counter()
    longest: ClassVar[int] = 0

    def feed(self, piece: bytes) -> None:
        Counted.pieces[Counted.turn] += 1
        Counted.longest = max(Counted.longest, len(piece))
        super().feed(piece)


def test_bodies_of_callbacks_are_read_one_piece_per_turn_of_the_loop(context: ApiContext) -> None:
    async def nothing(*_: object) -> None: ...

    async def run() -> None:
        wire_here = HudiWire(nothing, context=context)
        bodies = [wire_here.feed(Counted(("basePath",)), b'{"a":[' + b"[]," * 40_000) for _ in range(6)]
        reading = asyncio.gather(*bodies)
        while not reading.done():
            Counted.turn += 1
            await asyncio.sleep(0)

    asyncio.run(run())

    assert max(Counted.pieces.values()) == 1
    assert Counted.longest <= PIECE
    assert sum(Counted.pieces.values()) >= 6 * 120_000 // PIECE


def test_half_a_body_reaches_no_route() -> None:
    """Its sender is gone, and half a request may well be a whole document."""
    called = []
    messages: list[Message] = [
        {"type": "http.request", "body": b'{"location": "/data/trips"}', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def app(*_: object) -> None:
        called.append("app")

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        called.append(message["type"])

    scope = {"type": "http", "headers": [(b"content-length", b"1000")]}
    asyncio.run(BoundedBodies(app, most=65536)(scope, receive, send))

    assert called == []
