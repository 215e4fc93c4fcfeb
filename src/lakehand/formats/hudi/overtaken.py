# SPDX-License-Identifier: Apache-2.0
"""Clustering plans that writers have overtaken: running one would replace file groups together with newer rows.

Spark's writer refuses to update a file group that a pending clustering plan will replace, unless it was told to win;
other writers never refuse.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lakehand.formats.hudi.snapshot import HudiSnapshot, PendingPlan
from lakehand.formats.hudi.timeline import in_order

_BASE = re.compile(r"(?P<group>[^_]+)_[^_]+_(?P<instant>\d{14,17})\.[a-z]+")
_LOG = re.compile(r"\.(?P<group>[^_]+)_(?P<instant>\d{14,17})\.log\..+")


def why_overtaken(snapshot: HudiSnapshot, plan: PendingPlan) -> str | None:
    """Names a file of the plan's file groups that came after the plan; None: all is well."""
    for folder, slices in by_folder(plan.document).items():
        for name in names_in(snapshot, folder):
            found = _BASE.fullmatch(name) or _LOG.fullmatch(name)
            part = slices.get(found["group"]) if found else None
            if found and part and is_newer(snapshot, plan, part, name, found["instant"]):
                return (
                    f"clustering plan {plan.instant} was overtaken: {folder}/{name} is newer, and running the plan "
                    "would replace it"
                )
    return None


def names_in(snapshot: HudiSnapshot, folder: str) -> list[str]:
    try:
        return snapshot.storage.names(f"{snapshot.root}/{folder}".rstrip("/"))
    except FileNotFoundError:
        return []


def is_newer(snapshot: HudiSnapshot, plan: PendingPlan, part: Mapping[str, Any], name: str, instant: str) -> bool:
    """Not in the plan, and written by a completed write that began after the slice's base file did.

    Such a write may have begun before the plan and ended after it. In layout 1 logs bear the time of their base file:
    each that is not in the plan is newer.
    """
    if in_order(instant) > in_order(plan.instant):
        return bool(snapshot.timeline.completed_at(instant))
    base = _BASE.fullmatch(file_name(part.get("dataFilePath") or ""))
    known = {file_name(path) for path in part.get("deltaFilePaths") or ()}
    if base is None or name in known:
        return False
    if snapshot.layout == 1 and name.startswith("."):
        return instant == base["instant"]
    return in_order(instant) > in_order(base["instant"]) and bool(snapshot.timeline.completed_at(instant))


def by_folder(document: Mapping[str, Any]) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Partition → file group → slice."""
    folders: dict[str, dict[str, Mapping[str, Any]]] = {}
    for part in slices_of(document):
        folders.setdefault(part.get("partitionPath") or "", {})[part.get("fileId") or ""] = part
    return folders


def slices_of(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for group in (document.get("clusteringPlan") or {}).get("inputGroups") or []:
        yield from group.get("slices") or []


def file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
