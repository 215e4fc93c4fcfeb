# SPDX-License-Identifier: Apache-2.0
"""Where things lie in a table's folder: snapshots, tags, branches and consumers, each read when it is asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehand.storage import Storage, parse_json

Document = Mapping[str, Any]  # a snapshot, as its JSON says it
SNAPSHOT, TAG, CHANGELOG = "snapshot", "tag", "changelog"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The folder of a table, or of one of its branches: both have the same shape."""

    storage: Storage = field(repr=False, compare=False)
    root: str

    def ids(self, kind: str) -> list[int]:
        """The numbers of snapshots, schemas or changelogs, in order."""
        prefix = f"{kind}-"
        names = (name.removeprefix(prefix) for name in self.names(kind) if name.startswith(prefix))
        return sorted(int(name) for name in names if name.isdigit())

    def names(self, folder: str) -> list[str]:
        """File names; a folder that a table does not have yet is empty."""
        try:
            return self.storage.names(f"{self.root}/{folder}")
        except FileNotFoundError:
            return []

    def snapshot(self, id: int) -> Document:
        return self.document(f"{SNAPSHOT}/{SNAPSHOT}-{id}")

    def tags(self) -> dict[str, Document]:
        """Tags by name: each is a copy of its snapshot."""
        names = [name for name in self.names(TAG) if name.startswith("tag-")]
        return {name.removeprefix("tag-"): self.document(f"{TAG}/{name}") for name in sorted(names)}

    def changelogs(self) -> Iterator[Document]:
        for number in self.ids(CHANGELOG):
            yield self.document(f"{CHANGELOG}/{CHANGELOG}-{number}")

    def consumers(self) -> dict[str, int]:
        """What each consumer reads next: that snapshot and all later ones must stay."""
        prefix = "consumer-"
        names = [name for name in self.names("consumer") if name.startswith(prefix)]
        return {n.removeprefix(prefix): int(self.document(f"consumer/{n}")["nextSnapshot"]) for n in sorted(names)}

    def branches(self) -> dict[str, "Layout"]:
        try:
            found = self.storage.folders(f"{self.root}/branch")
        except FileNotFoundError:
            return {}
        names = sorted(name.removeprefix("branch-") for name in found if name.startswith("branch-"))
        return {name: Layout(storage=self.storage, root=f"{self.root}/branch/branch-{name}") for name in names}

    def document(self, name: str) -> dict[str, Any]:
        path = f"{self.root}/{name}"
        found = parse_json(self.storage.read(path), path)
        if not isinstance(found, dict):
            raise OSError(f"{path} is not what Paimon writes")
        return found
