# SPDX-License-Identifier: Apache-2.0
"""Avro files that a stranger may have written: checked and unpacked before fastavro sees them.

fastavro reads records in C and trusts their schema: one that contains itself ends the process (stack overflow), and
an array of a million nulls takes three bytes. So the schema is checked first, blocks are unpacked up to a limit, and
fastavro is given the same records in a file without compression.
"""

from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any

from lakehand.storage.avro_schemas import check_schema
from lakehand.storage.bounds import MOST_RECORDS, MOST_UNPACKED, TooLarge, refuse_bombs
from lakehand.storage.unpacking import CODECS

MAGIC = b"Obj\x01"
SCHEMA, CODEC = "avro.schema", "avro.codec"
SYNC = bytes(16)
MOST_KEYS = 1000  # of the header


class Cursor:
    """Reads Avro's own primitives from bytes; whatever would lead past their end is a ValueError."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.data)

    def number(self) -> int:
        """Seven bits a byte, the sign in the lowest."""
        value = 0
        for shift in range(0, 70, 7):
            [byte] = self.take(1)
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)
        raise ValueError("a number is too long")

    def count(self) -> int:
        number = self.number()
        if number < 0:
            raise ValueError(f"a length is {number}")
        return number

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise ValueError("it is cut short")
        taken, self.at = self.data[self.at : end], end
        return taken


def checked_avro(data: bytes, path: str) -> BytesIO:
    """The same records as an uncompressed Avro file that is safe to read. Whatever is wrong is an OSError."""
    try:
        return BytesIO(b"".join(unpacked(data, path)))
    except OSError:
        raise
    except MemoryError as error:
        raise TooLarge(f"{path} does not fit into memory") from error
    except Exception as error:  # each codec has its own ways to dislike what it is given
        raise OSError(f"{path} cannot be read as Avro: {type(error).__name__}: {error}") from error


def unpacked(data: bytes, path: str) -> Iterator[bytes]:
    cursor = Cursor(data)
    if cursor.take(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin as an Avro file does")
    header = read_header(cursor)
    schema = header[SCHEMA]
    try:
        check_schema(schema)
    except OSError as error:
        raise OSError(f"{path} has an Avro schema that is not read: {error}") from error
    yield MAGIC + varint(1) + text(SCHEMA.encode()) + text(schema) + varint(0) + SYNC
    yield from blocks(cursor, header.get(CODEC, b"null").decode(), path)


def read_header(cursor: Cursor) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    while count := cursor.number():
        if count < 0:
            count = -count
            cursor.number()  # how many bytes the entries take
        for _ in range(count):
            key = cursor.take(cursor.count()).decode()
            found[key] = cursor.take(cursor.count())
        if len(found) > MOST_KEYS:
            raise ValueError(f"its header has more than {MOST_KEYS} keys")
    return found


def blocks(cursor: Cursor, codec: str, path: str) -> Iterator[bytes]:
    """The blocks that follow the header, each unpacked. A record has a byte at least, since its schema was checked."""
    if codec not in CODECS:
        raise ValueError(f"its codec {codec!r} is not known")
    sync, left, records = cursor.take(len(SYNC)), MOST_UNPACKED, 0
    while not cursor.is_at_end:
        count = cursor.count()
        block = CODECS[codec](cursor.take(cursor.count()), left)
        refuse_bombs(path, len(block) + MOST_UNPACKED - left, MOST_UNPACKED)
        if cursor.take(len(SYNC)) != sync:
            raise ValueError("a block does not end where it should")
        left, records = left - len(block), records + count
        refuse_crowds(path, count, len(block), records)
        yield varint(count) + varint(len(block)) + block + SYNC


def refuse_crowds(path: str, count: int, size: int, records: int) -> None:
    if count > size:
        raise ValueError(f"a block of {size} bytes cannot hold {count} records")
    if records > MOST_RECORDS:
        raise TooLarge(f"{path} has more than {MOST_RECORDS} records, which are not read")


def varint(number: int) -> bytes:
    value, made = number << 1, bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def text(value: bytes) -> bytes:
    return varint(len(value)) + value


def read_records(data: bytes, path: str, *, projection: Callable[[str], Any] | None = None) -> Iterator[Any]:
    """The records of a file. ``projection``: from the schema that it was written with, the schema to read it with."""
    import fastavro  # costs 20 ms, and a probe does not need it

    checked = checked_avro(data, path)
    try:
        schema = projection(schema_text(checked.getvalue())) if projection else None
        yield from fastavro.reader(checked, reader_schema=schema)
    except OSError:
        raise
    except Exception as error:  # fastavro has many ways to dislike a file
        raise OSError(f"{path} cannot be read as Avro: {type(error).__name__}: {error}") from error


def schema_text(data: bytes) -> str:
    """The schema that a file was written with, as its header says it."""
    return read_header(Cursor(data, len(MAGIC)))[SCHEMA].decode()
