# SPDX-License-Identifier: Apache-2.0
"""The state of a Delta table at one version: its commits applied one after the other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehand.formats.delta.files import DataFile, Tombstone, added_file, removed_file


@dataclass(slots=True, kw_only=True)
class State:
    files: dict[str, DataFile] = field(default_factory=dict)  # by path
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    domains: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # metadata of features, by name

    def apply(self, commit: Iterable[Mapping[str, Any]]) -> None:
        """Removals first: a commit that gives a file a new deletion vector removes and adds the same path."""
        later = []
        for action in commit:
            if "remove" in action:
                self.remove(removed_file(action["remove"]))
            else:
                later.append(action)
        for action in later:
            self.apply_one(action)

    def apply_one(self, action: Mapping[str, Any]) -> None:
        if "add" in action:
            file = added_file(action["add"])
            self.files[file.path] = file
            self.tombstones.pop(file.path, None)
        elif "metaData" in action:
            self.metadata = action["metaData"]
        elif "protocol" in action:
            self.protocol = action["protocol"]
        elif "domainMetadata" in action:
            self.domains[action["domainMetadata"]["domain"]] = action["domainMetadata"]

    def restore(self, action: Mapping[str, Any]) -> None:
        """An action of a checkpoint: in any order, and a live file may have tombstones of its former vectors."""
        if "remove" in action:
            tombstone = removed_file(action["remove"])
            self.tombstones[tombstone.path] = tombstone
        else:
            self.apply_one(action)

    def bury(self) -> None:
        """After a checkpoint: what lives has no tombstone."""
        for path in self.tombstones.keys() & self.files.keys():
            del self.tombstones[path]

    def remove(self, tombstone: Tombstone) -> None:
        self.files.pop(tombstone.path, None)
        self.tombstones[tombstone.path] = tombstone
