# SPDX-License-Identifier: Apache-2.0
"""What a table shows of its writers: how they compress, how they find keys, and which plans they run now.

Hudi refuses a plan while a heartbeat of it is fresh, so that we do not even try. The compression of base files is a
setting of the writers that only the files themselves remember.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice

from lakehand.formats.hudi import plans
from lakehand.formats.hudi.snapshot import HudiSnapshot
from lakehand.formats.hudi.timeline import WRITES, TimelineFile
from lakehand.spi import Action, Instant, TableConfig, kit

KNOWN_CODECS = frozenset({"GZIP", "SNAPPY", "ZSTD", "UNCOMPRESSED"})
FILES_TRIED = 3  # files, until one can be read
COMMITS_READ = 3  # commits, newest first, until one has written a base file
HEARTBEATS = ".hoodie/.heartbeat"
INTERVAL = "hoodie.client.heartbeat.interval_in_ms"
MISSES = "hoodie.client.heartbeat.tolerable.misses"
HUDIS_INTERVAL, HUDIS_MISSES = 60_000, 2
INDEX_TYPE = kit.text_setting(
    "hoodie.index.type", "the index that all writers of the table use, as they set it; not known otherwise"
)
BUCKET = "BUCKET"
_IN_BUCKET = re.compile(r"0000\d{4}-")  # the bucket's number in front of the file group's random name


def codec_options(snapshot: HudiSnapshot, action: Action) -> dict[str, str]:
    """Compress base files as the table's writer does; empty when that is unknown."""
    found = (codec_of(snapshot, file) for file in islice(base_files(snapshot, action), FILES_TRIED))
    codec = next((codec for codec in found if codec in KNOWN_CODECS), None)
    return {"hoodie.parquet.compression.codec": codec.lower()} if codec else {}


def base_files(snapshot: HudiSnapshot, action: Action) -> Iterator[str]:
    """Paths of parquet files below the table, the likeliest first."""
    for plan in snapshot.pending_of(action):
        paths = (path.removeprefix(snapshot.location).lstrip("/") for path in plans.base_files(plan.document))
        yield from (path for path in paths if path.endswith(".parquet"))
    for commit in snapshot.timeline.completed(*WRITES)[: -COMMITS_READ - 1 : -1]:
        stats = plans.write_stats(snapshot.document(commit))
        paths = (str(stat.get("path") or "") for stat in stats)
        yield from (path for path in paths if path.endswith(".parquet"))


def codec_of(snapshot: HudiSnapshot, path: str) -> str | None:
    from pyarrow import ArrowInvalid, parquet  # costs 100 ms, once

    try:
        with snapshot.storage.open(f"{snapshot.root}/{path}") as file:
            footer = parquet.read_metadata(file)
            return str(footer.row_group(0).column(0).compression) if footer.num_row_groups else None
    except (OSError, ArrowInvalid):
        return None


def heartbeat_options(config: TableConfig) -> dict[str, str]:
    """The table's options of heartbeats: all who run its plans must use the same."""
    return {key: str(config.number(key, 0)) for key in (INTERVAL, MISSES) if key in config.settings}


def heartbeats(snapshot: HudiSnapshot) -> dict[str, datetime]:
    """When each writer or runner sent its last one, by instant."""
    try:
        entries = snapshot.storage.entries(f"{snapshot.root}/{HEARTBEATS}")
    except FileNotFoundError:
        return {}
    return {entry.name: entry.modified for entry in entries}


def heartbeat_timeout(config: TableConfig) -> timedelta:
    """How old a heartbeat may be before Hudi takes its runner for dead: two minutes, unless the table differs."""
    interval = timedelta(milliseconds=config.number(INTERVAL, HUDIS_INTERVAL))
    return interval * config.number(MISSES, HUDIS_MISSES)


def fresh_for(snapshot: HudiSnapshot, instant: Instant, now: datetime, config: TableConfig) -> timedelta | None:
    """How much longer a plan's heartbeat counts as fresh; None when there is none or it is old."""
    newest = heartbeats(snapshot).get(instant)
    left = heartbeat_timeout(config) - (now - newest) if newest else timedelta()
    return left if left > timedelta() else None


def writers_index(snapshot: HudiSnapshot, config: TableConfig) -> str:
    """Hudi's word for it, as the table's properties say or as its files show; empty when nobody knows.

    That the metadata table has a record index does not show that the writers look into it.
    """
    named = config.text(INDEX_TYPE.key) or snapshot.properties.get(INDEX_TYPE.key, "")
    return named.strip().upper() or (BUCKET if has_buckets(snapshot) else "")


def has_buckets(snapshot: HudiSnapshot) -> bool:
    newest = snapshot.timeline.completed("deltacommit" if snapshot.is_merge_on_read else "commit")[-1:]
    groups = [str(stat.get("fileId")) for stat in write_stats(snapshot, newest)]
    return bool(groups) and all(_IN_BUCKET.match(group) for group in groups)


def write_stats(snapshot: HudiSnapshot, commits: Iterable[TimelineFile]) -> Iterator[plans.Document]:
    for file in commits:
        with suppress(OSError):  # a commit that cannot be read is reported by whoever needs it
            yield from plans.write_stats(snapshot.document(file))
