# SPDX-License-Identifier: Apache-2.0
"""Avro files put together byte by byte: also those that no library would write."""

import json
import zlib
from collections.abc import Sequence
from typing import Any

SYNC = b"s" * 16


def number(value: int) -> bytes:
    value = value << 1 if value >= 0 else ((-value) << 1) - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def avro_file(schema: Any, blocks: Sequence[tuple[int, bytes]], codec: str = "null") -> bytes:
    """``blocks``: the number of records in each header, and its bytes as they are stored."""
    document = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    header = number(2) + text(b"avro.schema") + text(document) + text(b"avro.codec") + text(codec.encode()) + number(0)
    stored = b"".join(number(count) + text(block) + SYNC for count, block in blocks)
    return b"Obj\x01" + header + SYNC + stored


def record(*fields: tuple[str, Any], name: str = "A") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields]}


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def laughs(levels: int) -> dict[str, Any]:
    """Each level holds two of the one below, and the lowest takes no bytes: 2 ** levels values from nothing."""
    inner: Any = record(("n", "null"), name="L0")
    for level in range(1, levels):
        inner = record(("a", inner), ("b", f"L{level - 1}"), name=f"L{level}")
    return record(("one", "int"), ("many", inner))
