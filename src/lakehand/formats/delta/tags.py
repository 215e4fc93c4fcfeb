# SPDX-License-Identifier: Apache-2.0
"""Finding our own commits in a table's log: each carries the tag of the operation that made it."""

from collections.abc import Mapping
from typing import Any

from lakehand.formats.delta.log import Commit, info_of
from lakehand.formats.delta.snapshot import DeltaSnapshot
from lakehand.spi import Json

PREFIX = "lakehand-operation="


def tagged(snapshot: DeltaSnapshot, parameters: Mapping[str, Json]) -> list[tuple[int, Commit]]:
    """The commits of an operation since it was first admitted, oldest first."""
    mark = f"{PREFIX}{parameters.get('operation_tag')}"
    if not parameters.get("operation_tag"):
        return []
    found = snapshot.commits_after(version_before(parameters))
    return [(version, commit) for version, commit in found if is_marked(info_of(commit), mark)]


def is_marked(info: Mapping[str, Any], mark: str) -> bool:
    return info.get("userMetadata") == mark


def version_before(parameters: Mapping[str, Json]) -> int:
    before = parameters.get("before")
    version = before.get("version") if isinstance(before, Mapping) else None
    return version if isinstance(version, int) else -1
