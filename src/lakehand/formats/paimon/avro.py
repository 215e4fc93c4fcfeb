# SPDX-License-Identifier: Apache-2.0
"""Reading Avro as Paimon writes it: compressed with zstd, which fastavro leaves to a library that may be missing."""

from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any

CODEC = "zstandard"


def records(data: bytes, path: str) -> list[dict[str, Any]]:
    """All records of a file. Whatever cannot be read is an OSError: nobody may take it for empty."""
    try:
        return [record for record in reader()(BytesIO(data)) if isinstance(record, dict)]
    except Exception as error:
        raise OSError(f"{path} cannot be read as Avro: {error}") from error


@cache
def reader() -> Callable[[BytesIO], Any]:
    """fastavro's reader; imported at first use, since it costs more than a look at a small table."""
    import fastavro
    import fastavro.read as reading

    try:
        import backports.zstd  # type: ignore[import-not-found,unused-ignore]  # noqa: F401 - then fastavro has its own
    except ImportError:
        decompress = decompressor()
        reading.BLOCK_READERS[CODEC] = lambda stream: BytesIO(decompress(stream.read(length(stream))))
    return fastavro.reader


@cache
def decompressor() -> Callable[[bytes], bytes]:
    """zstandard is there with pyiceberg and loads quickly; pyarrow is always there."""
    try:
        from zstandard import ZstdDecompressor
    except ImportError:
        return by_arrow
    return lambda data: ZstdDecompressor().decompressobj().decompress(data)


def by_arrow(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read())


def length(stream: Any) -> int:
    """A number as Avro writes it: seven bits a byte, the sign in the lowest."""
    value, shift, byte = 0, 0, 0x80
    while byte & 0x80:
        byte = stream.read(1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1)
