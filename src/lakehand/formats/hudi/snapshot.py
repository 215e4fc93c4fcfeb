# SPDX-License-Identifier: Apache-2.0
"""A Hudi table at one moment: its properties and its timeline; plans are opened only when someone asks for them."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakehand.domain.cached_property import cached_property
from lakehand.formats.hudi import plans, properties
from lakehand.formats.hudi.timeline import LOG_COMPACTED, WRITES, State, Timeline, TimelineFile, committed_at, in_order
from lakehand.spi import Action, Instant, Json, health
from lakehand.storage import Entry, Storage

# Actions whose plans the timeline shows.
COMPACTION = Action.register("compaction")
CLUSTERING = Action.register("clustering")
CLEAN = Action.register("clean")
LOG_COMPACTION = Action.register("log-compaction")
INDEXING = Action.register("indexing")
PLANNED = (COMPACTION, CLUSTERING, CLEAN, LOG_COMPACTION, INDEXING)

_SIZES = {
    COMPACTION: plans.compaction_size,
    CLUSTERING: plans.clustering_size,
    CLEAN: plans.clean_size,
    LOG_COMPACTION: plans.compaction_size,
    INDEXING: plans.index_size,
}
_PLANS = {
    "compaction": COMPACTION,
    "clustering": CLUSTERING,
    "clean": CLEAN,
    LOG_COMPACTED: LOG_COMPACTION,
    "indexing": INDEXING,
}


TIMEZONE = "hoodie.table.timeline.timezone"
SMALL = 100 * health.MB  # what Hudi's writers call small by default
_BASE = re.compile(r"([^_.][^_]*)_\d+-\d+-\d+_(\d{14}|\d{17})\.(?:parquet|orc|hfile|lance)")
_LOG = re.compile(r"\.([^_]+)_(\d{14}|\d{17})(?:\.[a-z]+)?\.log\.\d+(?:_\d+-\d+-\d+)?(?:\.cdc)?")
Files = dict[str, list[tuple[str, int]]]  # file group → instant in order and size of each file


@dataclass(frozen=True, kw_only=True)
class PendingPlan:
    """Work that is planned in the table and not completed."""

    action: Action
    instant: Instant
    state: State
    since: datetime  # when its file was last written
    table: "HudiSnapshot" = field(repr=False, compare=False)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The plan as Avro holds it; empty when it cannot be found any more. Raises if a file of it is torn."""
        if self.state is State.INFLIGHT:
            self.table.document(next(file for file in self.table.timeline.pending() if file.instant == self.instant))
        return self.table.requested_document(self.instant)

    @cached_property
    def size(self) -> plans.PlanSize:
        return _SIZES[self.action](self.document)


@dataclass(frozen=True, kw_only=True)
class HudiSnapshot:
    """What a Hudi table's own metadata says."""

    token: str
    location: str
    properties: Mapping[str, str]
    timeline: Timeline
    timeline_folder: str = field(repr=False)
    root: str = field(repr=False)
    storage: Storage = field(repr=False, compare=False)

    @property
    def is_merge_on_read(self) -> bool:
        return self.properties.get("hoodie.table.type", "COPY_ON_WRITE").upper() == "MERGE_ON_READ"

    @property
    def version(self) -> int:
        return properties.number(self.properties, "hoodie.table.version", 0)

    @property
    def layout(self) -> int:
        return properties.number(self.properties, "hoodie.timeline.layout.version", 1)

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """The parts of the metadata table that exist: ``files`` and the indexes."""
        return properties.read_list(self.properties, "hoodie.table.metadata.partitions")

    @property
    def unfinished_metadata_partitions(self) -> tuple[str, ...]:
        return properties.read_list(self.properties, "hoodie.table.metadata.partitions.inflight")

    @cached_property
    def pending(self) -> tuple[PendingPlan, ...]:
        """Pending plans that a service can run, oldest first."""
        found = ((file, self._action_of(file)) for file in self.timeline.pending())
        return tuple(
            PendingPlan(action=action, instant=file.instant, state=file.state, since=file.modified, table=self)
            for file, action in found
            if action is not None
        )

    def pending_of(self, action: Action) -> tuple[PendingPlan, ...]:
        return tuple(plan for plan in self.pending if plan.action == action)

    def instants_of(self, action: Action) -> list[Instant]:
        """Completed instants of an action, oldest first."""
        if action == CLEAN:
            return [f.instant for f in self.timeline.completed("clean")]
        if action == CLUSTERING:
            return [f.instant for f in self.timeline.completed("replacecommit") if self._was_clustering(f.instant)]
        if action == INDEXING:
            return [f.instant for f in self.timeline.completed("indexing")]
        if action == LOG_COMPACTION:
            merges = set(self.timeline.log_compactions())
            return [f.instant for f in self.timeline.completed("deltacommit") if f.instant in merges]
        return [f.instant for f in self.timeline.completed("commit")] if self.is_merge_on_read else []

    def commits_since(self, action: Action) -> int:
        return len(self.unserved(action))

    def unserved(self, action: Action, seen: str = "") -> list[TimelineFile]:
        """Writes since the last completed run of an action, or since ``seen`` if that is newer."""
        done = self.instants_of(action)
        if action == LOG_COMPACTION:  # a compaction merges the logs, too
            done = sorted([*done, *self.instants_of(COMPACTION)], key=in_order)
        since = max([*done[-1:], seen], key=in_order)
        if action in (COMPACTION, LOG_COMPACTION):
            return self.timeline.writes_since(since, "deltacommit")
        return self.timeline.writes_since(since)

    def oldest_unserved(self, action: Action, seen: str = "") -> datetime | None:
        utc = self.properties.get(TIMEZONE, "").upper() == "UTC"
        return min((committed_at(file, utc=utc) for file in self.unserved(action, seen)), default=None)

    def counted_for(self, action: Action) -> str:
        return "delta commits" if action in (COMPACTION, LOG_COMPACTION) else "commits"

    def since_last(self, action: Action) -> str:
        done = self.instants_of(action)
        last = f"the last {action} at {done[-1]}" if done else f"the beginning of the timeline, without a {action}"
        return f"{self.commits_since(action)} {self.counted_for(action)} since {last}"

    def rollback_of(self, instant: Instant) -> TimelineFile | None:
        """The completed rollback that names this plan or write."""
        for file in self.timeline.completed("rollback"):
            if in_order(file.instant) <= in_order(instant):
                continue
            try:
                named = self.document(file).get("commitsRollback")
            except OSError:
                continue
            if isinstance(named, list) and instant in named:
                return file
        return None

    @cached_property
    def index_definitions(self) -> Mapping[str, Any]:
        """How the indexes of the metadata table are defined, by name."""
        path = self.properties.get("hoodie.table.index.defs.path")
        return (self._document(f"{self.root}/{path}") if path else {}).get("indexDefinitions") or {}

    @cached_property
    def savepoints(self) -> tuple[Instant, ...]:
        """Commits whose files nobody may delete, oldest first."""
        return tuple(file.instant for file in self.timeline.completed("savepoint"))

    def requested_document(self, instant: str) -> dict[str, Any]:
        found = map(self.document, self.timeline.requested_at(instant))
        return next((document for document in found if document), {})

    def document(self, file: TimelineFile) -> dict[str, Any]:
        return self._document(f"{self.timeline_folder}/{file.name}")

    def _document(self, path: str) -> dict[str, Any]:
        """Empty when the file is gone."""
        try:
            return plans.read_document(self.storage.read(path), path)
        except FileNotFoundError:
            return {}

    @cached_property
    def numbers(self) -> Mapping[str, Json]:
        """Health for people. Lists the table's folders: decisions use the timeline alone and never come here."""
        counted: dict[str, Json] = {
            "table_type": "merge-on-read" if self.is_merge_on_read else "copy-on-write",
            "table_version": self.version,
            "timeline_layout": self.layout,
            "metadata_partitions": ",".join(self.metadata_partitions),
            "commits": len(self.timeline.completed("commit", "deltacommit", "replacecommit")),
            "commits_since_clean": self.commits_since(CLEAN),
            "commits_since_clustering": self.commits_since(CLUSTERING),
            health.SAVEPOINTS: ",".join(self.savepoints),
            health.PENDING_PLANS: len(self.pending),
            **self._snapshot_numbers(),
        }
        if self.is_merge_on_read:
            counted["delta_commits_since_compaction"] = self.commits_since(COMPACTION)
        return {**self._file_numbers(), **counted, **self._pending_numbers()}

    def _file_numbers(self) -> dict[str, Json]:
        replacing = self.timeline.completed("replacecommit")
        replaced = {group for file in replacing for group in plans.replaced_groups(self.document(file))}
        return live_files(self.storage.below(self.root), self.timeline, replaced).numbers

    def _snapshot_numbers(self) -> dict[str, Json]:
        writes = self.timeline.completed(*WRITES)
        oldest = {health.OLDEST_SNAPSHOT: writes[0].modified.isoformat(timespec="seconds")} if writes else {}
        return {health.SNAPSHOTS: len(writes), **oldest}

    def _pending_numbers(self) -> dict[str, Json]:
        if not self.pending:
            return {}
        oldest = min(self.pending, key=lambda plan: plan.since)
        return {
            **{f"pending_{action.replace('-', '_')}": len(self.pending_of(action)) for action in PLANNED},
            "pending_file_groups": sum(plan.size.file_groups for plan in self.pending),
            "pending_files": sum(plan.size.files for plan in self.pending),
            "pending_bytes": sum(plan.size.bytes for plan in self.pending),
            "oldest_pending_instant": oldest.instant,
            "oldest_pending": oldest.since.isoformat(timespec="seconds"),
        }

    def _action_of(self, file: TimelineFile) -> Action | None:
        if file.action == "replacecommit":
            return CLUSTERING if plans.is_clustering(self.requested_document(file.instant)) else None
        return _PLANS.get(file.action)

    def _was_clustering(self, instant: str) -> bool:
        """Told by the plan that stays beside the completed file: by its name, or in layout 1 by its content."""
        requested = self.timeline.requested_at(instant)
        if any(file.action == "clustering" for file in requested):
            return True
        old = any(file.action == "replacecommit" for file in requested)
        return old and plans.is_clustering(self.requested_document(instant))


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    base: tuple[int, ...]  # sizes
    logs: tuple[int, ...]

    @property
    def numbers(self) -> dict[str, Json]:
        counted = health.file_numbers(self.base, [size for size in self.base if size < SMALL])
        return {**counted, health.LOG_FILES: len(self.logs), "log_bytes": sum(self.logs)}


def live_files(entries: Iterable[Entry], timeline: Timeline, replaced: Collection[str]) -> LiveFiles:
    """The newest committed base file of each file group, and the logs that came with it or after it.

    A write is part of the table when it is completed, or so old that it has left the active timeline.
    """
    completed = {in_order(file.instant) for file in timeline.completed()}
    first = min((in_order(file.instant) for file in timeline.files), default="")
    bases, logs = by_group(entries, replaced)
    newest: dict[str, tuple[str, int]] = {}
    for group, files in bases.items():
        if committed := [one for one in files if one[0] in completed or one[0] < first]:
            newest[group] = max(committed)
    later = [size for group, files in logs.items() for at, size in files if at >= newest.get(group, ("", 0))[0]]
    return LiveFiles(base=tuple(size for _, size in newest.values()), logs=tuple(later))


def by_group(entries: Iterable[Entry], replaced: Collection[str]) -> tuple[Files, Files]:
    """Base files, and logs on top of them, by the file group that they belong to."""
    bases: Files = defaultdict(list)
    logs: Files = defaultdict(list)
    for entry in entries:
        folder, _, name = entry.name.rpartition("/")
        is_log = name.startswith(".")
        found = (_LOG if is_log else _BASE).fullmatch(name)
        if found is not None and found[1] not in replaced:
            (logs if is_log else bases)[f"{folder}/{found[1]}"].append((in_order(found[2]), entry.size))
    return bases, logs
