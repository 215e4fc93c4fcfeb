# SPDX-License-Identifier: Apache-2.0
"""How many records an Avro file holds, by walking over its blocks: a file that ends too early is an error."""

from io import BytesIO
from typing import Any

MAGIC, SYNC = b"Obj\x01", 16


class NotWhole(Exception):
    """The file ends in the middle of something."""


def count(data: bytes) -> int:
    stream = BytesIO(data)
    if taken(stream, len(MAGIC)) != MAGIC:
        raise NotWhole("it is no Avro file")
    skip_header(stream)
    sync = taken(stream, SYNC)
    records = 0
    while stream.tell() < len(data):
        records += number(stream)
        taken(stream, number(stream))
        if taken(stream, SYNC) != sync:
            raise NotWhole("a block does not end where it says")
    return records


def skip_header(stream: BytesIO) -> None:
    """A map of names and bytes, in blocks; the last block is empty."""
    while pairs := number(stream):
        if pairs < 0:
            number(stream)  # the block's size in bytes
        for _ in range(2 * abs(pairs)):
            taken(stream, number(stream))


def number(stream: BytesIO) -> int:
    value, shift, byte = 0, 0, 0x80
    while byte & 0x80:
        byte = taken(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1)


def taken(stream: BytesIO, size: int) -> bytes:
    found = stream.read(size) if size >= 0 else b""
    if len(found) != size:
        raise NotWhole("it was cut short")
    return found


def content(store: Any, path: Any) -> bytes:
    """All bytes of a small file, by Paimon's own access to the storage."""
    files = store.snapshotManager().fileIO()
    stream = files.newInputStream(path)
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()
