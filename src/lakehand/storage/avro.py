# SPDX-License-Identifier: Apache-2.0
"""Avro files that a stranger may have written: checked and unpacked before fastavro sees them.

fastavro reads records in C and trusts their schema: one that contains itself ends the process (stack overflow), and
an array of a million nulls takes three bytes. So the schema is checked first, blocks are unpacked up to a limit, and
fastavro is given the same records in a file without compression.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

from lakehand.storage.bounds import CODECS, MOST_RECORDS, MOST_UNPACKED, TooLarge, refuse_bombs
from lakehand.storage.json_documents import parse_json

DEEPEST = 64
LONGEST = 256 * 1024  # bytes of a schema
FREE, PER_BYTE = 64, 8  # values that a record may hold: so many, and so many more for each byte that it takes
MAGIC = b"Obj\x01"
SCHEMA, CODEC = "avro.schema", "avro.codec"
SYNC = bytes(16)
MOST_KEYS = 1000  # of the header


class Cost(NamedTuple):
    """The fewest bytes that a value takes in a file, and the most values that it is made of, arrays not unfolded."""

    bytes: int
    values: int = 1


PRIMITIVES = {
    name: Cost(size)
    for name, size in {
        "null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1,
    }.items()
}  # fmt: skip


@lru_cache(maxsize=128)
def check_schema(text: bytes) -> None:
    """Raises OSError about a schema that could end or fill the process that reads with it. Cached: files repeat it."""
    if len(text) > LONGEST:
        raise OSError(f"it has {len(text)} bytes; more than {LONGEST} are not read")
    try:
        cost = Schema().cost(parse_json(text, "the schema"), 0)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise OSError(str(error)) from error
    if cost.bytes == 0:
        raise OSError("a record of it takes no bytes")


class Schema:
    """The named types of one schema and what a value of each costs."""

    def __init__(self) -> None:
        self._costs: dict[str, Cost | None] = {}  # None: its definition is not over yet

    def cost(self, schema: Any, depth: int, space: str = "") -> Cost:
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        if isinstance(schema, str):
            return self.cost_of(schema, space)
        if isinstance(schema, list):
            branches = [self.cost(one, depth + 1, space) for one in schema]
            return Cost(1 + min(one.bytes for one in branches), max(one.values for one in branches))
        return self.complex(schema, depth, space)

    def complex(self, schema: Mapping[str, Any], depth: int, space: str) -> Cost:
        kind = schema["type"]
        if kind in ("record", "error"):
            return self.record(schema, depth, space)
        if kind in ("fixed", "enum"):
            cost = Cost(max(int(schema["size"]), 0) if kind == "fixed" else 1)
            self._costs[full_name(schema, space)] = cost
            return cost
        if kind in ("array", "map"):
            inner = self.cost(schema["items" if kind == "array" else "values"], depth + 1, space)
            if kind == "array" and inner.bytes == 0:
                raise ValueError("the items of an array take no bytes")
            return Cost(1)
        return self.cost(kind, depth + 1, space)

    def record(self, schema: Mapping[str, Any], depth: int, space: str) -> Cost:
        name = full_name(schema, space)
        self._costs[name] = None
        inside = name.rpartition(".")[0]
        fields = [self.cost(field["type"], depth + 1, inside) for field in schema["fields"]]
        cost = Cost(sum(one.bytes for one in fields), 1 + sum(one.values for one in fields))
        if cost.values > FREE + PER_BYTE * cost.bytes:
            raise ValueError(f"{name[:80]!r} holds {cost.values} values in {cost.bytes} bytes")
        self._costs[name] = cost
        return cost

    def cost_of(self, name: str, space: str) -> Cost:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        full = f"{space}.{name}" if space and "." not in name else name
        known = full if full in self._costs else name
        if known not in self._costs:
            raise ValueError(f"it does not define {name[:80]!r}")
        cost = self._costs[known]
        if cost is None:
            raise ValueError(f"{name[:80]!r} contains itself")
        return cost


def full_name(schema: Mapping[str, Any], space: str) -> str:
    name, own = str(schema["name"]), schema.get("namespace", space)
    return name if "." in name or not own else f"{own}.{name}"


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
