# SPDX-License-Identifier: Apache-2.0
"""How much of a table's metadata is read at most: files, what they unpack to, and the documents in them."""

MB = 1024 * 1024
LARGEST = 256 * MB  # bytes of one metadata file that is read whole
SMALL = 16 * MB  # bytes of a file that is small in every sound table: properties, hints
MOST_UNPACKED = 256 * MB  # bytes that one compressed file may unpack to
MOST_CONTAINERS = 5_000_000  # objects and arrays in one JSON document: an empty one takes 3 bytes there, 64 in memory
MOST_RECORDS = 2_000_000  # records in one Avro file


class TooLarge(OSError):
    """A file of a table is larger, or unpacks to more, than Lakehand reads."""


def refuse_giants(path: str, size: int, limit: int = LARGEST) -> None:
    if size > limit:
        raise TooLarge(f"{path} has {size} bytes; more than {limit} are not read")


def refuse_bombs(path: str, size: int, limit: int = MOST_UNPACKED) -> None:
    if size > limit:
        raise TooLarge(f"{path} unpacks to more than {limit} bytes, which is not read")
