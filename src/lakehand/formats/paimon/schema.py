# SPDX-License-Identifier: Apache-2.0
"""A table's schema file: its keys and options, with Paimon's defaults where it says nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from lakehand.domain.texts import Word
from lakehand.spi import Invalid
from lakehand.storage import parse_json

MB = 1024 * 1024
SIZES = {"b": 1, "k": 1024, "m": MB, "g": 1024 * MB, "t": 1024 * 1024 * MB}
SPANS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_LONG_SPANS = {"day": "d", "hour": "h", "minute": "min", "sec": "s", "second": "s", "milli": "ms", "millisecond": "ms"}
_AMOUNT = re.compile(r"(\d+)\s*([a-zµ]*)")


class TableKind(Word):
    """What compaction means for a table."""

    APPEND = "append"  # no key, no buckets: small files are packed
    BUCKETED_APPEND = "bucketed append"
    PRIMARY_KEY = "primary key"  # sorted runs in each bucket
    CROSS_PARTITION = "cross partition"  # the key does not hold the partition: Paimon's Spark cannot compact it


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    id: int
    version: int = 3
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()  # of the columns, as Paimon writes them
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> TableKind:
        if not self.primary_keys:
            return TableKind.APPEND if self.bucket < 0 else TableKind.BUCKETED_APPEND
        is_crossing = self.bucket < 0 and not set(self.partition_keys) <= set(self.primary_keys)
        return TableKind.CROSS_PARTITION if is_crossing else TableKind.PRIMARY_KEY

    @property
    def partition_types(self) -> tuple[str, ...]:
        types = dict(zip(self.columns, self.types, strict=True))
        return tuple(types[key] for key in self.partition_keys)

    @property
    def bucket(self) -> int:
        """Before 0.8 the default was one bucket."""
        return self.number("bucket", 1 if self.version <= 1 else -1)

    @property
    def is_write_only(self) -> bool:
        return self.options.get("write-only", self.options.get("write.compaction-skip", "")).lower() == "true"

    @property
    def has_deletion_vectors(self) -> bool:
        return self.options.get("deletion-vectors.enabled", "").lower() == "true"

    @property
    def target_size(self) -> int:
        default = 128 * MB if self.primary_keys else 256 * MB
        return size_of(self.options["target-file-size"]) if "target-file-size" in self.options else default

    @property
    def small_below(self) -> int:
        """Paimon's own line: what compaction has just written is not touched again."""
        return self.target_size // 10 * 7

    @property
    def sorted_run_trigger(self) -> int:
        return self.number("num-sorted-run.compaction-trigger", 5)

    @property
    def retained(self) -> int:
        """How many snapshots the table's owner wants to keep; 0: not set."""
        return self.number("snapshot.num-retained.min", 0)

    @property
    def retained_for(self) -> timedelta:
        text = self.options.get("snapshot.time-retained")
        return span_of(text) if text else timedelta()

    def number(self, key: str, default: int) -> int:
        text = self.options.get(key)
        try:
            return default if text is None else int(text)
        except ValueError:
            raise Invalid(f"the table's option {key} is {text!r}, which is not a number") from None


def parse_schema(data: bytes, path: str) -> TableSchema:
    try:
        document: dict[str, Any] = parse_json(data, path)
        return TableSchema(
            id=int(document["id"]),
            version=int(document.get("version", 1)),
            partition_keys=tuple(document.get("partitionKeys") or ()),
            primary_keys=tuple(document.get("primaryKeys") or ()),
            columns=tuple(str(one["name"]) for one in document["fields"]),
            types=tuple(str(one["type"]) for one in document["fields"]),
            options={str(key): str(value) for key, value in (document.get("options") or {}).items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Invalid(f"{path} is not a schema of Paimon's: {error!r}") from error


def size_of(text: str) -> int:
    """``128 mb``, ``1g``, ``4096``: as Paimon reads sizes."""
    found = _AMOUNT.fullmatch(text.strip().lower())
    if found is None or (found[2] or "b")[0] not in SIZES:
        raise Invalid(f"{text!r} is not a size that Paimon knows")
    return int(found[1]) * SIZES[(found[2] or "b")[0]]


def span_of(text: str) -> timedelta:
    """``1 h``, ``30 min``, ``7 days``: as Paimon reads durations; a bare number is milliseconds."""
    found = _AMOUNT.fullmatch(text.strip().lower())
    unit = (found[2] or "ms") if found else "?"
    word = unit if unit in SPANS else _LONG_SPANS.get(unit.removesuffix("s"), unit)
    if found is None or word not in SPANS:
        raise Invalid(f"{text!r} is not a duration that Paimon knows")
    return timedelta(seconds=int(found[1]) * SPANS[word])
