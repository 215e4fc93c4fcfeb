# SPDX-License-Identifier: Apache-2.0
"""What branches need of the main line, looked at once more right before an expiry: Paimon does not look at all."""

from collections.abc import Iterator
from typing import Any


def first_needed(table: Any) -> list[int]:
    """For each branch the first snapshot of the main line that must stay; none where a tag keeps it anyhow."""
    tagged = lists_of(table.tagManager().taggedSnapshots())
    main = table.snapshotManager()
    found = (needed_by(table.switchToBranch(name), main, tagged) for name in table.branchManager().branches())
    return [number for number in found if number is not None]


def needed_by(branch: Any, main: Any, tagged: set[str]) -> int | None:
    snapshots = list(snapshots_of(branch))
    if not snapshots:
        return None
    untagged = [one.id() for one in snapshots if is_of(main, one) and one.deltaManifestList() not in tagged]
    if untagged:
        return int(min(untagged))
    if lists_of(snapshots) & tagged or min(one.id() for one in snapshots) == 1:
        return None
    return int(main.earliestSnapshotId())


def snapshots_of(branch: Any) -> Iterator[Any]:
    manager = branch.snapshotManager()
    latest, earliest = manager.latestSnapshotId(), manager.earliestSnapshotId()
    if latest is not None:
        yield from (manager.snapshot(number) for number in range(earliest, latest + 1))
    yield from branch.tagManager().taggedSnapshots()


def is_of(main: Any, snapshot: Any) -> bool:
    """Whether a branch began with this snapshot of the main line."""
    if not main.snapshotExists(snapshot.id()):
        return False
    return bool(main.snapshot(snapshot.id()).deltaManifestList() == snapshot.deltaManifestList())


def lists_of(snapshots: Any) -> set[str]:
    return {str(one.deltaManifestList()) for one in snapshots}
