# SPDX-License-Identifier: Apache-2.0
"""Partitions of an Iceberg table by name: as events name them, and as a rewrite filters by them."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

from lakehand.domain.cached_property import cached_property
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import Json

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
PLAIN = frozenset({"identity", "bucket", "truncate"})  # their values are named as they are
TRANSFORMS = PLAIN | {"year", "month", "day", "hour"}


class PartitionField(NamedTuple):
    name: str
    column: str
    transform: str  # such as bucket[16]

    @property
    def kind(self) -> str:
        return self.transform.partition("[")[0]


class PartitionNames:
    """The names of the partitions of the table's current spec."""

    def __init__(self, snapshot: IcebergSnapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def fields(self) -> Sequence[PartitionField]:
        """Empty if one of them cannot be named: it has another transform, or a column within a struct."""
        metadata = self._snapshot.metadata
        columns = {one["id"]: str(one["name"]) for one in schema_of(metadata).get("fields") or ()}
        found = [
            PartitionField(str(one["name"]), columns.get(one["source-id"], ""), str(one["transform"]))
            for one in spec_of(metadata, self._snapshot.spec).get("fields") or ()
        ]
        return found if all(one.column and one.kind in TRANSFORMS for one in found) else ()

    def values(self, group: Hashable) -> Mapping[str, str | None]:
        """The values of a partition by the names of its fields, as Iceberg shows them; empty if there is no text."""
        parts = self.parts(group)
        shown = {field.name: text_of(field.kind, value) for field, value in parts}
        return {} if any(text == "" for text in shown.values()) else shown

    def condition(self, group: Hashable) -> list[Json] | None:
        """Columns, transforms and values that select just this partition; None if they cannot be written down."""
        parts = self.parts(group)
        if not parts or any(text_of(field.kind, value) == "" for field, value in parts):
            return None
        return [[field.column, field.transform, literal_of(value)] for field, value in parts]

    def parts(self, group: Hashable) -> Sequence[tuple[PartitionField, Any]]:
        if not isinstance(group, tuple) or len(group) != len(self.fields) + 1:
            return ()
        return list(zip(self.fields, group[1:], strict=True))


def schema_of(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    current = metadata.get("current-schema-id")
    found = next((one for one in metadata.get("schemas") or () if one.get("schema-id") == current), None)
    return found or metadata.get("schema") or {}


def spec_of(metadata: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    found = next((one for one in metadata.get("partition-specs") or () if one.get("spec-id") == number), None)
    return found or {}


SHOWN: Mapping[str, Callable[[int], str]] = {
    "year": lambda value: f"{1970 + value}",
    "month": lambda value: f"{1970 + value // 12}-{value % 12 + 1:02d}",
    "day": lambda value: f"{EPOCH + timedelta(days=value):%Y-%m-%d}",
    "hour": lambda value: f"{EPOCH + timedelta(hours=value):%Y-%m-%d-%H}",
}


def text_of(kind: str, value: Any) -> str | None:
    """As Iceberg names it in a path; None for no value, empty for what has no plain text."""
    if value is None:
        return None
    if kind in PLAIN or isinstance(value, date):
        return plain_text(value)
    return SHOWN[kind](value) if isinstance(value, int) else ""


def plain_text(value: Any) -> str:
    """Empty for types whose texts depend on who writes them, such as times."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, int | str) else ""


def literal_of(value: Any) -> Json:
    literal: Json = value.isoformat() if isinstance(value, date) else value
    return literal
