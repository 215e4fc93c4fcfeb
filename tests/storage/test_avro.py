# SPDX-License-Identifier: Apache-2.0
"""An Avro file is checked before fastavro reads it in C: what would end or fill the process is an OSError here."""

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pytest

from lakehand.storage import TooLarge, read_records
from lakehand.storage import avro as avro_module
from lakehand.storage.avro import schema_text
from tests.storage.avro_files import avro_file, deflated, laughs, number, record

ONE = record(("id", "int"))
LINKED = record(("next", ["null", "A"]))
SHAPES: list[Any] = [
    record(("id", "long"), ("name", ["null", "string"]), ("tags", {"type": "map", "values": "bytes"})),
    {**record(("inner", record(("x", "double"), name="B")), ("again", "B")), "namespace": "some.space"},
    record(("e", {"type": "enum", "name": "E", "symbols": ["x"]}), ("f", {"type": "fixed", "name": "F", "size": 2})),
    record(("at", {"type": "long", "logicalType": "timestamp-millis"}), ("parts", {"type": "array", "items": "int"})),
    record(("status", "int"), ("partition", record(name="r102"))),
]  # fmt: skip
VALUES: list[Any] = [
    {"id": 7, "name": None, "tags": {"a": b"b"}},
    {"inner": {"x": 1.5}, "again": {"x": 2.5}},
    {"e": "x", "f": b"ab"},
    {"at": 0, "parts": [1, 2, 3]},
    {"status": 1, "partition": {}},
]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
@pytest.mark.parametrize(("schema", "value"), list(zip(SHAPES, VALUES, strict=True)), ids=range(len(SHAPES)))
def test_what_the_library_writes_is_read_as_the_library_reads_it(schema: Any, value: Any, codec: str) -> None:
    written = io.BytesIO()
    fastavro.writer(written, schema, [value] * 1000, codec=codec, sync_interval=500)
    data = written.getvalue()
    assert list(read_records(data, "f")) == list(fastavro.reader(io.BytesIO(data)))
    assert len(json.loads(schema_text(data))["fields"]) == len(schema["fields"])


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_codecs_that_the_library_lacks_are_unpacked_here(codec: str) -> None:
    import pyarrow as pa

    packed = pa.compress(number(7) * 100, codec=codec, asbytes=True)
    word, block = ("zstandard", packed) if codec == "zstd" else ("snappy", packed + b"crc4")
    assert list(read_records(avro_file(ONE, [(100, block)], word), "f")) == [{"id": 7}] * 100


@pytest.mark.parametrize(
    ("schema", "block", "why"),
    [
        (record(("a", "A")), b"", "'A' contains itself"),
        (LINKED, number(1) * 100_000 + number(0), "'A' contains itself"),
        (record(("a", {"type": "array", "items": "A"})), b"\0", "'A' contains itself"),
        (record(("a", {"type": "array", "items": "null"})), number(10**12) + b"\0", "items of an array take no bytes"),
        (record(("a", {"type": "array", "items": record(name="B")})), number(10**12) + b"\0", "take no bytes"),
        (record(("a", "null")), b"", "takes no bytes"),
        (laughs(60), b"\2", "values in 0 bytes"),
        (record(("a", "Unknown")), b"", "does not define 'Unknown'"),
        (b"[" * 100_000, b"", "nested too deeply"),
        (b'{"type":"array","items":' * 200 + b'"int"' + b"}" * 200, b"", "more than 64 levels deep"),
        (b'"', b"", "not a JSON document"),
        (b" " * 300_000, b"", "schema that is not read: it has 300000 bytes"),
        (b"17", b"", "schema that is not read"),
    ],
)
def test_a_schema_that_could_end_or_fill_the_process_is_refused(schema: Any, block: bytes, why: str) -> None:
    """The first two end a process that reads them with fastavro alone: a stack overflow in C."""
    with pytest.raises(OSError, match=f"^/t/m.avro .*{why}"):
        list(read_records(avro_file(schema, [(1, block)]), "/t/m.avro"))


def test_a_block_with_more_records_than_bytes_is_refused() -> None:
    with pytest.raises(OSError, match="a block of 1 bytes cannot hold 1000000000000 records"):
        list(read_records(avro_file(ONE, [(10**12, number(1))]), "f"))


def test_so_many_records_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_module, "MOST_RECORDS", 150)
    with pytest.raises(TooLarge, match="f has more than 150 records"):
        list(read_records(avro_file(ONE, [(100, number(7) * 100)] * 2), "f"))


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy", "bzip2", "xz"])
def test_a_block_that_unpacks_to_more_than_the_limit_is_refused(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import bz2
    import lzma

    import pyarrow as pa

    monkeypatch.setattr(avro_module, "MOST_UNPACKED", 1_000_000)
    zeros = bytes(5_000_000)
    packers: dict[str, Callable[[], bytes]] = {
        "deflate": lambda: deflated(zeros),
        "zstandard": lambda: bytes(pa.compress(zeros, codec="zstd", asbytes=True)),
        "snappy": lambda: bytes(pa.compress(zeros, codec="snappy", asbytes=True)) + b"crc4",
        "bzip2": lambda: bz2.compress(zeros),
        "xz": lambda: lzma.compress(zeros),
    }
    packed = packers[codec]()
    with pytest.raises(TooLarge, match=r"/t/bomb.avro unpacks to more than 1000000 bytes"):
        list(read_records(avro_file(ONE, [(1, packed)], codec), "/t/bomb.avro"))


def test_many_blocks_that_each_stay_below_the_limit_do_not_get_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_module, "MOST_UNPACKED", 1_000_000)
    block = (1, deflated(bytes(600_000)))
    with pytest.raises(TooLarge, match="unpacks to more than 1000000 bytes"):
        list(read_records(avro_file(ONE, [block, block], "deflate"), "f"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"Obj\x01",
        b"Obj\x01" + number(10**15),
        b"Obj\x01" + b"\xff" * 20,
        b"Obj\x01" + number(1) + number(-5),
        avro_file(ONE, [(1, number(1))])[:-3],
        avro_file(ONE, [(1, number(1))], "lzo"),
        avro_file(ONE, [(1, b"no deflate")], "deflate"),
        avro_file(ONE, [(-1, number(1))]),
        avro_file(ONE, [(1, number(1))])[:-16] + b"x" * 16,
    ],
)
def test_a_damaged_file_is_an_error_about_the_file(data: bytes) -> None:
    with pytest.raises(OSError, match="f cannot be read as Avro"):
        list(read_records(data, "f"))
