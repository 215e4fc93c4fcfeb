# SPDX-License-Identifier: Apache-2.0
"""A Delta table at one moment: its log is listed, and everything else is read when someone asks for it."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lakehand.domain.cached_property import cached_property
from lakehand.formats.delta import checkpoint_files
from lakehand.formats.delta.files import LiveFile, LogState, Partition
from lakehand.formats.delta.log import Commit, Log, committed_at, info_of
from lakehand.spi import Invalid, Json, health
from lakehand.spi.kit.conversions import fields, milliseconds, moment_of
from lakehand.storage import parse_json

TARGET = 128 * health.MB
SMALL_SHARE = 0.75  # of the target: smaller files are small
RETENTION_FLOOR = timedelta(days=7)
HEADLINE = (health.FILES, health.BYTES, health.SMALL_FILES, health.DELETION_VECTORS, "tombstones", "tombstone_bytes")
TAG_PREFIX = "lakehand-operation="
MOST_PARTITIONS = 200  # partitions in one statement
# Values of other types are not read back by a cast as the log writes them, for instance in another time zone.
TYPES = frozenset({"string", "date", "boolean", "byte", "short", "integer", "long"})
PHYSICAL = "delta.columnMapping.physicalName"
RETENTION = "delta.deletedFileRetentionDuration"
LOG_RETENTION = "delta.logRetentionDuration"
_INTERVAL_PART = re.compile(r"(\d+)\s*(week|day|hour|minute|second|millisecond|microsecond)s?", re.IGNORECASE)
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class DeltaSnapshot:
    """What a Delta table's own log says."""

    token: str
    location: str
    read_at: datetime
    log: Log = field(repr=False)

    @property
    def version(self) -> int:
        return self.log.newest

    @cached_property
    def state(self) -> LogState:
        state = LogState()
        if self.log.start is not None:
            checkpoint_files.load(state, self.log, self.log.start)
        for _, commit in self.log.commits(self.log.tail):
            state.apply(commit)
        if not state.protocol or not state.metadata:
            raise OSError(f"the log of {self.location} has no protocol or schema up to version {self.version}")
        return state

    @property
    def files(self) -> Mapping[str, LiveFile]:
        return self.state.files

    @property
    def identity(self) -> str | None:
        """The id that Delta gave to the table when it was made: another table at its location has another."""
        found = self.state.metadata.get("id")
        return found if isinstance(found, str) else None

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.state.metadata.get("configuration") or {}

    @property
    def retention(self) -> timedelta:
        """How long the table keeps removed files. Raises Invalid when the interval cannot be parsed."""
        return self._interval(RETENTION, "interval 7 days")

    @property
    def log_retention(self) -> timedelta:
        """How long the table keeps its log. Raises Invalid as above."""
        return self._interval(LOG_RETENTION, "interval 30 days")

    def _interval(self, key: str, default: str) -> timedelta:
        text = self.configuration.get(key, default)
        parts = _INTERVAL_PART.findall(text)
        if not parts or _INTERVAL_PART.sub("", text).strip().lower() not in ("", "interval"):
            raise Invalid(f"{key} is {text!r}, which is not an interval such as 'interval 30 days'")
        return sum((timedelta(**{f"{unit.lower()}s": int(count)}) for count, unit in parts), timedelta())

    @property
    def target_bytes(self) -> int | None:
        """How large a file should be, if the table has a property for it."""
        found = _SIZE.fullmatch(self.configuration.get("delta.targetFileSize", "").strip())
        return int(found[1]) * 1024 ** ("kmgt".index(found[2].lower()) + 1 if found[2] else 0) if found else None

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.state.metadata.get("partitionColumns") or ())

    @cached_property
    def schema(self) -> tuple[Mapping[str, Any], ...]:
        """The columns, as the log describes them."""
        document = self._parse(self.state.metadata.get("schemaString"))
        return tuple(document.get("fields") or ())

    def _parse(self, text: str | None) -> Mapping[str, Any]:
        """A document that the log holds as a text."""
        found = parse_json(text or "{}", f"the schema or a domain of {self.location}")
        return found if isinstance(found, dict) else {}

    @cached_property
    def features(self) -> frozenset[str]:
        protocol = self.state.protocol
        return frozenset((*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())))

    @cached_property
    def clustering_columns(self) -> tuple[str, ...]:
        """Of liquid clustering; empty when the table has none."""
        domain = self.state.domains.get("delta.clustering") or {}
        if domain.get("removed"):
            return ()
        columns = self._parse(domain.get("configuration")).get("clusteringColumns") or ()
        return tuple(".".join(column) for column in columns)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def with_vectors(self) -> list[LiveFile]:
        return [file for file in self.files.values() if file.has_vector]

    def infos_backwards(self, down_to: int, most: int) -> Iterator[tuple[int, Commit, Mapping[str, Any]]]:
        """The newest commits, newest first, each with its ``commitInfo``."""
        wanted = [version for version in reversed(self.log.versions) if version > down_to][:most]
        for version, commit in self.log.commits(wanted):
            yield version, commit, info_of(commit)

    @cached_property
    def numbers(self) -> Mapping[str, Json]:
        sizes = [file.size for file in self.files.values()]
        limit = SMALL_SHARE * (self.target_bytes or TARGET)
        return {
            **health.file_numbers(sizes, [size for size in sizes if size < limit]),
            health.SNAPSHOTS: sum(version >= self.log.oldest for version in self.log.versions) or 1,
            health.OLDEST_SNAPSHOT: self._oldest_moment(),
            "version": self.version,
            health.DELETION_VECTORS: len(self.with_vectors),
            "deleted_rows": sum(file.deleted for file in self.with_vectors),
            **self._tombstone_numbers(),
        }

    @property
    def headline(self) -> dict[str, Json]:
        """The numbers that an operation remembers, before and after."""
        return {"version": self.version, **{key: self.numbers.get(key) for key in HEADLINE}}

    def _oldest_moment(self) -> str | None:
        version = next((v for v in self.log.versions if v >= self.log.oldest), self.version)
        try:
            moment = committed_at(self.log.commit(version))
        except FileNotFoundError:  # the log was cleaned up since we listed it
            return None
        return moment_of(moment).isoformat() if moment else None

    def _tombstone_numbers(self) -> dict[str, Json]:
        """Of what the state remembers: checkpoints forget tombstones that are older than the retention."""
        tombstones = self.state.tombstones.values()
        try:
            cutoff = milliseconds(self.read_at - max(self.retention, RETENTION_FLOOR))
        except Invalid:
            return {"tombstones": len(tombstones)}
        old = [one for one in tombstones if one.removed < cutoff]
        return {
            "tombstones": len(tombstones),
            "tombstone_bytes": sum(one.size for one in tombstones),
            "old_tombstones": len(old),  # past the retention: a vacuum may delete their files
            "old_tombstone_bytes": sum(one.size for one in old),
        }


def tagged(snapshot: DeltaSnapshot, parameters: Mapping[str, Json]) -> list[tuple[int, Commit]]:
    """The commits of an operation since it was first admitted, oldest first."""
    tag = parameters.get("operation_tag")
    if not tag:
        return []
    found = snapshot.log.commits(snapshot.log.after(version_before(parameters)))
    return [
        (version, commit) for version, commit in found if info_of(commit).get("userMetadata") == TAG_PREFIX + str(tag)
    ]


def version_before(parameters: Mapping[str, Json]) -> int:
    version = fields(parameters.get("before")).get("version")
    return version if isinstance(version, int) else -1


def name_partitions(snapshot: DeltaSnapshot, chosen: Collection[Partition]) -> Sequence[Json] | None:
    """The partitions as (column, type, value) triples; None: all of the table, without a condition."""
    every = {file.partition for file in snapshot.files.values()}
    kinds = partition_types(snapshot)
    can_be_named = bool(kinds) and all(kind in TYPES for _, kind in kinds.values())
    if not can_be_named or len(chosen) >= len(every) or not all(can_be_quoted(one) for one in chosen):
        return None
    return [[[*kinds[key], value] for key, value in partition] for partition in chosen]


def partition_types(snapshot: DeltaSnapshot) -> Mapping[str, tuple[str, str]]:
    """Name and type of the partition columns by the name that the log's files use for them."""
    known = {}
    for column in snapshot.schema:
        if column.get("name") in snapshot.partition_columns:
            physical = (column.get("metadata") or {}).get(PHYSICAL) or column["name"]
            known[physical] = (str(column["name"]), str(column.get("type")))
    return known if len(known) == len(snapshot.partition_columns) else {}


def can_be_quoted(partition: Partition) -> bool:
    return all(value is None or (value.isprintable() and "\\" not in value) for _, value in partition)
