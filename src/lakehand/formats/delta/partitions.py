# SPDX-License-Identifier: Apache-2.0
"""Naming partitions to the engine, so that a rewrite leaves alone what needs no work."""

from collections.abc import Collection, Mapping, Sequence

from lakehand.formats.delta.files import Partition
from lakehand.formats.delta.snapshot import DeltaSnapshot
from lakehand.spi import Json

MOST = 200  # partitions in one statement
# Values of other types are not read back by a cast as the log writes them, for instance in another time zone.
TYPES = frozenset({"string", "date", "boolean", "byte", "short", "integer", "long"})
PHYSICAL = "delta.columnMapping.physicalName"


def can_be_named(snapshot: DeltaSnapshot) -> bool:
    kinds = partition_types(snapshot)
    return bool(kinds) and all(kind in TYPES for _, kind in kinds.values())


def named(snapshot: DeltaSnapshot, chosen: Collection[Partition]) -> Sequence[Json] | None:
    """The partitions as (column, type, value) triples; None: all of the table, without a condition."""
    every = {file.partition for file in snapshot.files.values()}
    if not can_be_named(snapshot) or len(chosen) >= len(every) or not all(is_plain(one) for one in chosen):
        return None
    kinds = partition_types(snapshot)
    return [[[*kinds[key], value] for key, value in partition] for partition in chosen]


def partition_types(snapshot: DeltaSnapshot) -> Mapping[str, tuple[str, str]]:
    """Name and type of the partition columns by the name that the log's files use for them."""
    known = {}
    for column in snapshot.schema:
        if column.get("name") in snapshot.partition_columns:
            physical = (column.get("metadata") or {}).get(PHYSICAL) or column["name"]
            known[physical] = (str(column["name"]), str(column.get("type")))
    return known if len(known) == len(snapshot.partition_columns) else {}


def is_plain(partition: Partition) -> bool:
    """Whether the values can be quoted."""
    return all(value is None or (value.isprintable() and "\\" not in value) for _, value in partition)
