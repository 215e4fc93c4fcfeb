# SPDX-License-Identifier: Apache-2.0
"""What branches need of the main line: Paimon's expiry forgets a branch whose tag is gone from the main line."""

from collections.abc import Iterator

from lakehand.formats.paimon.layout import SNAPSHOT, Document, Layout
from lakehand.formats.paimon.snapshot import PaimonSnapshot


def held_by_branches(snapshot: PaimonSnapshot) -> Iterator[tuple[int, str]]:
    """(first snapshot that must stay, which branch): nothing where a tag keeps the place that a branch began at."""
    branches = snapshot.layout.branches()
    tags = list(snapshot.layout.tags().values()) if branches else []
    for name, branch in branches.items():
        needed = needed_by(snapshot, branch, tags)
        if needed is not None:
            yield needed, f"branch {name}"


def needed_by(snapshot: PaimonSnapshot, branch: Layout, tags: list[Document]) -> int | None:
    documents = [branch.snapshot(number) for number in branch.ids(SNAPSHOT)] + list(branch.tags().values())
    if not documents:
        return None
    untagged = [one["id"] for one in documents if is_of_main(snapshot, one) and not is_among(tags, one)]
    if untagged:
        return int(min(untagged))
    if any(is_among(tags, one) for one in documents) or min(one["id"] for one in documents) == 1:
        return None  # kept by a tag; or a branch that began empty, with files of its own only
    return snapshot.earliest  # it came from a place that is no longer known: nothing of the main line may go


def is_of_main(snapshot: PaimonSnapshot, document: Document) -> bool:
    """A branch begins with a copy of a snapshot of the main line; its own commits have other manifest lists."""
    if document["id"] not in snapshot.ids:
        return False
    same = snapshot.document(document["id"])
    return same is not None and is_among([same], document)


def is_among(documents: list[Document], one: Document) -> bool:
    return any(one["deltaManifestList"] == other["deltaManifestList"] for other in documents)
