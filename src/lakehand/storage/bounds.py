# SPDX-License-Identifier: Apache-2.0
"""How much of a table's metadata is read at most: files, what they unpack to, and the documents in them.

A few bytes may unpack to more than a machine has.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable
from functools import cache
from gzip import GzipFile
from io import BytesIO
from typing import Any

MB = 1024 * 1024
LARGEST = 256 * MB  # bytes of one metadata file that is read whole
SMALL = 16 * MB  # bytes of a file that is small in every sound table: properties, hints
MOST_UNPACKED = 256 * MB  # bytes that one compressed file may unpack to
MOST_CONTAINERS = 5_000_000  # objects and arrays in one JSON document: an empty one takes 3 bytes there, 64 in memory
MOST_RECORDS = 2_000_000  # records in one Avro file
RAW = -15  # zlib's word for deflate without a header
Unpack = Callable[[bytes, int], bytes]  # gives at most one byte more than the limit


class TooLarge(OSError):
    """A file of a table is larger, or unpacks to more, than Lakehand reads."""


def refuse_giants(path: str, size: int, limit: int = LARGEST) -> None:
    if size > limit:
        raise TooLarge(f"{path} has {size} bytes; more than {limit} are not read")


def refuse_bombs(path: str, size: int, limit: int = MOST_UNPACKED) -> None:
    if size > limit:
        raise TooLarge(f"{path} unpacks to more than {limit} bytes, which is not read")


def gunzip(data: bytes, path: str, limit: int = MOST_UNPACKED) -> bytes:
    try:
        with GzipFile(fileobj=BytesIO(data)) as file:
            unpacked = file.read(limit + 1)
    except (EOFError, zlib.error, OSError) as error:
        raise OSError(f"{path} cannot be unpacked: {error}") from error
    refuse_bombs(path, len(unpacked), limit)
    return unpacked


def unsnappy(block: bytes, limit: int) -> bytes:
    """Snappy says first how much follows; Avro puts four bytes of a checksum after it."""
    import pyarrow as pa

    size = snappy_size(block)
    if size > limit:
        return bytes(limit + 1)
    return bytes(pa.Codec("snappy").decompress(block[:-4], decompressed_size=size, asbytes=True))


def snappy_size(block: bytes) -> int:
    value = 0
    for index, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value
    raise ValueError("a snappy block has no length")


def arrow_stream(block: bytes) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.BufferReader(block), "zstd")


@cache
def zstd_stream() -> Callable[[bytes], Any]:
    """zstandard is there with pyiceberg and loads quickly; pyarrow is always there."""
    try:
        from zstandard import ZstdDecompressor
    except ImportError:
        return arrow_stream
    return lambda block: ZstdDecompressor().stream_reader(block)


def unzstd(block: bytes, limit: int) -> bytes:
    with zstd_stream()(block) as stream:
        return bytes(stream.read(limit + 1))


CODECS: dict[str, Unpack] = {
    "null": lambda block, _: block,
    "deflate": lambda block, limit: zlib.decompressobj(RAW).decompress(block, limit + 1),
    "zstandard": unzstd,
    "snappy": unsnappy,
    "bzip2": lambda block, limit: bz2.BZ2Decompressor().decompress(block, limit + 1),
    "xz": lambda block, limit: lzma.LZMADecompressor(memlimit=MOST_UNPACKED).decompress(block, limit + 1),
}
