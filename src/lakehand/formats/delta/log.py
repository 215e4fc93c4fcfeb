# SPDX-License-Identifier: Apache-2.0
"""The transaction log of a Delta table: which commits and checkpoints its folder holds, and how a commit is read."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from lakehand.domain.cached_property import cached_property
from lakehand.spi import Invalid
from lakehand.storage import SMALL, Storage, parse_json, parse_json_lines

FOLDER = "_delta_log"
THREADS = 16  # reads at once where each is a journey over the network
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")

Commit = Sequence[Mapping[str, Any]]  # the actions of one commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    version: int
    names: tuple[str, ...]  # its parts


@dataclass(frozen=True, kw_only=True)
class Log:
    """The log's folder as one listing saw it. Commits are read when they are asked for."""

    storage: Storage
    folder: str
    versions: tuple[int, ...]  # of the commits that are there, oldest first
    names: Collection[str]

    @staticmethod
    def read(storage: Storage, root: str, location: str) -> "Log":
        folder = f"{root}/{FOLDER}"
        try:
            names = storage.names(folder)
        except (FileNotFoundError, NotADirectoryError):
            raise Invalid(f"there is no Delta table at {location}: it has no folder {FOLDER}") from None
        commits = (name[:20] for name in names if len(name) == 25 and name.endswith(".json") and name[:20].isdigit())
        log = Log(storage=storage, folder=folder, versions=tuple(sorted(map(int, commits))), names=names)
        if not log.versions and not log.checkpoints:
            raise Invalid(f"there is no Delta table at {location}: its {FOLDER} has no commit and no checkpoint")
        return log

    @property
    def newest(self) -> int:
        """A checkpoint is a version too: it may be all that is left of a log."""
        return self.versions[-1] if self.versions else self.checkpoints[-1].version

    @property
    def newest_path(self) -> str:
        """The file of the newest version: if it was replaced, so was the table."""
        name = self.checkpoints[-1].names[0] if not self.versions else ""
        return f"{self.folder}/{name}" if name else commit_path(self.folder, self.newest)

    @property
    def first_commit(self) -> int:
        """The oldest commit that is there; one to come, when only a checkpoint is left."""
        return self.versions[0] if self.versions else self.newest + 1

    @cached_property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Complete ones, oldest first."""
        return tuple(sorted(complete(self.names), key=lambda c: c.version))

    @cached_property
    def start(self) -> Checkpoint | None:
        """The newest checkpoint: reading begins there."""
        usable = [c for c in self.checkpoints if c.version <= self.newest]
        return usable[-1] if usable else None

    @cached_property
    def oldest(self) -> int:
        """The oldest version that a reader can travel to."""
        if self.first_commit == 0 or not self.checkpoints:
            return self.first_commit
        return next((c.version for c in self.checkpoints if c.version >= self.first_commit - 1), self.first_commit)

    @property
    def tail(self) -> range:
        """The versions after the newest checkpoint."""
        return range(self.start.version + 1 if self.start else 0, self.newest + 1)

    def after(self, version: int) -> list[int]:
        return [known for known in self.versions if known > version]

    def commit(self, version: int) -> Commit:
        return read_commit(self.storage, commit_path(self.folder, version))

    def commits(self, versions: Iterable[int]) -> Iterator[tuple[int, Commit]]:
        """Several commits, in the given order."""
        wanted = list(versions)
        if self.storage.is_local or len(wanted) < 2:
            yield from ((version, self.commit(version)) for version in wanted)
            return
        with ThreadPoolExecutor(min(THREADS, len(wanted))) as pool:
            yield from zip(wanted, pool.map(self.commit, wanted), strict=True)

    def document(self, name: str) -> Mapping[str, Any]:
        """A small JSON file of the folder; empty when it is not there or makes no sense."""
        if name not in self.names:
            return {}
        try:
            data = self.storage.read(f"{self.folder}/{name}", limit=SMALL)
        except FileNotFoundError:
            return {}
        try:
            found = parse_json(data, name)
        except OSError:
            return {}
        return found if isinstance(found, dict) else {}


def commit_path(folder: str, version: int) -> str:
    return f"{folder}/{version:020d}.json"


def complete(names: Iterable[str]) -> Iterator[Checkpoint]:
    """Checkpoints of which all parts are there; of several for one version any will do."""
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if found := _CHECKPOINT.fullmatch(name) if ".checkpoint." in name else None:
            version, total = int(found[1]), int(found[3] or 0)
            if total:
                parts.setdefault((version, total), []).append(name)
            else:
                yield Checkpoint(version=version, names=(name,))
    for (version, total), found_parts in parts.items():
        if len(found_parts) == total:
            yield Checkpoint(version=version, names=tuple(sorted(found_parts)))


def read_commit(storage: Storage, path: str) -> Commit:
    return parse_json_lines(storage.read(path), path)


def info_of(commit: Commit) -> Mapping[str, Any]:
    """The ``commitInfo`` of a commit, which is optional."""
    for action in commit:
        if "commitInfo" in action:
            return action["commitInfo"] or {}
    return {}


def committed_at(commit: Commit) -> int:
    """Milliseconds since 1970; 0 when the commit has no time."""
    info = info_of(commit)
    moment = info.get("inCommitTimestamp") or info.get("timestamp")
    return moment if isinstance(moment, int) else 0
