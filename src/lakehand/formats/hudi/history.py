# SPDX-License-Identifier: Apache-2.0
"""The archived timeline, as far as it can be read without Hudi: which instants are in it."""

import re
from collections.abc import Iterator

from lakehand.formats.hudi.properties import FOLDER, TIMELINE
from lakehand.formats.hudi.snapshot import HudiSnapshot
from lakehand.formats.hudi.timeline import in_order
from lakehand.spi.kit.conversions import fields, items
from lakehand.storage import SMALL, parse_json

_FILE = re.compile(r"(\d{14,17})_(\d{14,17})_\d+\.parquet")  # first and last instant, level
_LOG = re.compile(r"\.commits_\.archive\..+")


def is_archived(snapshot: HudiSnapshot, instant: str) -> bool:
    if snapshot.layout == 1:
        return is_in_logs(snapshot, instant)
    return any(instant in instants_in(snapshot, path) for path in history_files(snapshot, instant))


def is_in_logs(snapshot: HudiSnapshot, instant: str) -> bool:
    """Their records are not compressed: an instant that was archived is in them as text."""
    folder = f"{snapshot.root}/{FOLDER}/{snapshot.properties.get('hoodie.archivelog.folder') or 'archived'}"
    try:
        names = [name for name in snapshot.storage.names(folder) if _LOG.fullmatch(name)]
    except FileNotFoundError:
        return False
    return any(instant.encode() in snapshot.storage.read(f"{folder}/{name}") for name in sorted(names, reverse=True))


def history_files(snapshot: HudiSnapshot, instant: str) -> Iterator[str]:
    """Files of the newest manifest that can hold an instant."""
    path = snapshot.properties.get("hoodie.timeline.path") or TIMELINE
    history = snapshot.properties.get("hoodie.timeline.history.path") or "history"
    folder = f"{snapshot.root}/{FOLDER}/{path}/{history}"
    try:
        version = snapshot.storage.read(f"{folder}/_version_", limit=SMALL).decode(errors="replace").strip()
        if not version.isdigit():
            raise OSError(f"{folder}/_version_ is {version[:20]!r}, which is no number")
        manifest = parse_json(snapshot.storage.read(f"{folder}/manifest_{version}"), folder)
    except FileNotFoundError:
        return
    for entry in items(fields(manifest).get("files")):
        found = _FILE.fullmatch(str(fields(entry).get("fileName")))
        if found and in_order(found[1]) <= in_order(instant) <= in_order(found[2]):
            yield f"{folder}/{found[0]}"


def instants_in(snapshot: HudiSnapshot, path: str) -> list[str]:
    from pyarrow import ArrowInvalid, parquet  # costs 100 ms, once

    try:
        with snapshot.storage.open(path) as file:
            return [str(one) for one in parquet.read_table(file, columns=["instantTime"])["instantTime"].to_pylist()]
    except ArrowInvalid as error:
        raise OSError(f"{path} cannot be read: {error}") from error
