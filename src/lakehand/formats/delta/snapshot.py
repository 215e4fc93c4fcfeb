# SPDX-License-Identifier: Apache-2.0
"""A Delta table at one moment: its log is listed, and everything else is read when someone asks for it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any

from lakehand.formats.delta import checkpoints, properties
from lakehand.formats.delta.files import LiveFile, LogState, Partition
from lakehand.formats.delta.log import Commit, Log, committed_at, info_of
from lakehand.spi import Invalid, Json, health, size_histogram
from lakehand.storage import parse_json

MB = 1024 * 1024
TARGET = 128 * MB
SMALL_SHARE = 0.75  # of the target: smaller files are small
RETENTION_FLOOR = timedelta(days=7)
HEADLINE = (health.FILES, health.BYTES, health.SMALL_FILES, health.DELETION_VECTORS, "tombstones", "tombstone_bytes")
TAG_PREFIX = "lakehand-operation="
MOST_PARTITIONS = 200  # partitions in one statement
# Values of other types are not read back by a cast as the log writes them, for instance in another time zone.
TYPES = frozenset({"string", "date", "boolean", "byte", "short", "integer", "long"})
PHYSICAL = "delta.columnMapping.physicalName"


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
            checkpoints.load(state, self.log, self.log.start)
        for _, commit in self.log.commits(self.log.tail):
            state.apply(commit)
        if not state.protocol or not state.metadata:
            raise OSError(f"the log of {self.location} tells no protocol or schema up to version {self.version}")
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

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.state.metadata.get("partitionColumns") or ())

    @cached_property
    def schema(self) -> tuple[Mapping[str, Any], ...]:
        """The columns, as the log describes them."""
        document = self._parsed(self.state.metadata.get("schemaString"))
        return tuple(document.get("fields") or ())

    def _parsed(self, text: str | None) -> Mapping[str, Any]:
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
        columns = self._parsed(domain.get("configuration")).get("clusteringColumns") or ()
        return tuple(".".join(column) for column in columns)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def with_vectors(self) -> list[LiveFile]:
        return [file for file in self.files.values() if file.has_vector]

    def commits_after(self, version: int) -> Iterator[tuple[int, Commit]]:
        yield from self.log.commits(self.log.after(version))

    def infos_backwards(self, down_to: int, most: int) -> Iterator[tuple[int, Commit, Mapping[str, Any]]]:
        """The newest commits, newest first, and what they say of themselves."""
        wanted = [version for version in reversed(self.log.versions) if version > down_to][:most]
        for version, commit in self.log.commits(wanted):
            yield version, commit, info_of(commit)

    @cached_property
    def numbers(self) -> Mapping[str, Json]:
        sizes = [file.size for file in self.files.values()]
        limit = SMALL_SHARE * (properties.target_size(self.configuration) or TARGET)
        small = [size for size in sizes if size < limit]
        return {
            health.FILES: len(sizes),
            health.BYTES: sum(sizes),
            health.SMALL_FILES: len(small),
            health.SMALL_BYTES: sum(small),
            health.HISTOGRAM: size_histogram(sizes),
            health.SNAPSHOTS: sum(version >= self.log.oldest for version in self.log.versions) or 1,
            health.OLDEST_SNAPSHOT: self._oldest_moment(),
            "version": self.version,
            **self._vector_numbers(),
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
        return iso(moment) if moment else None

    def _vector_numbers(self) -> dict[str, Json]:
        found = self.with_vectors
        return {health.DELETION_VECTORS: len(found), "deleted_rows": sum(file.deleted for file in found)}

    def _tombstone_numbers(self) -> dict[str, Json]:
        """Of what the state remembers: checkpoints forget tombstones that are older than the retention."""
        tombstones = self.state.tombstones.values()
        try:
            kept = max(properties.retention(self.configuration), RETENTION_FLOOR)
        except Invalid:
            return {"tombstones": len(tombstones)}
        cutoff = milliseconds(self.read_at - kept)
        old = [one for one in tombstones if one.removed < cutoff]
        return {
            "tombstones": len(tombstones),
            "tombstone_bytes": sum(one.size for one in tombstones),
            "old_tombstones": len(old),  # past the retention: a vacuum may delete their files
            "old_tombstone_bytes": sum(one.size for one in old),
        }


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def moment_of(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def iso(milliseconds: int) -> str:
    return moment_of(milliseconds).isoformat()


def tagged(snapshot: DeltaSnapshot, parameters: Mapping[str, Json]) -> list[tuple[int, Commit]]:
    """The commits of an operation since it was first admitted, oldest first."""
    wanted = f"{TAG_PREFIX}{parameters.get('operation_tag')}"
    if not parameters.get("operation_tag"):
        return []
    found = snapshot.commits_after(version_before(parameters))
    return [(version, commit) for version, commit in found if info_of(commit).get("userMetadata") == wanted]


def version_before(parameters: Mapping[str, Json]) -> int:
    before = parameters.get("before")
    version = before.get("version") if isinstance(before, Mapping) else None
    return version if isinstance(version, int) else -1


def can_be_named(snapshot: DeltaSnapshot) -> bool:
    kinds = partition_types(snapshot)
    return bool(kinds) and all(kind in TYPES for _, kind in kinds.values())


def name_partitions(snapshot: DeltaSnapshot, chosen: Collection[Partition]) -> Sequence[Json] | None:
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
