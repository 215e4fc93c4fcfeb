# SPDX-License-Identifier: Apache-2.0
"""The compression of a table's base files: a setting of its writers that only the files themselves remember."""

from collections.abc import Iterator
from itertools import islice

from lakehand.formats.hudi import plans
from lakehand.formats.hudi.snapshot import CLEAN, HudiSnapshot
from lakehand.formats.hudi.timeline import WRITES
from lakehand.spi import Action

KNOWN = frozenset({"GZIP", "SNAPPY", "ZSTD", "UNCOMPRESSED"})
TRIED = 3  # files, until one can be read
LOOKED_AT = 3  # commits, newest first, until one has written a base file


def codec_options(snapshot: HudiSnapshot, action: Action) -> dict[str, str]:
    """Write base files as the table's writer does; nothing where that cannot be told."""
    if action == CLEAN:
        return {}
    found = (codec_of(snapshot, file) for file in islice(base_files(snapshot, action), TRIED))
    codec = next((codec for codec in found if codec in KNOWN), None)
    return {"hoodie.parquet.compression.codec": codec.lower()} if codec else {}


def base_files(snapshot: HudiSnapshot, action: Action) -> Iterator[str]:
    """Paths of parquet files below the table, the likeliest first."""
    for plan in snapshot.pending_of(action):
        yield from (below(snapshot, path) for path in plans.base_files(plan.document) if path.endswith(".parquet"))
    for commit in snapshot.timeline.completed(*WRITES)[: -LOOKED_AT - 1 : -1]:
        stats = (snapshot.completed_document(commit).get("partitionToWriteStats") or {}).values()
        paths = (str(stat.get("path") or "") for group in stats for stat in group or [])
        yield from (path for path in paths if path.endswith(".parquet"))


def below(snapshot: HudiSnapshot, path: str) -> str:
    return path.removeprefix(snapshot.location).lstrip("/")


def codec_of(snapshot: HudiSnapshot, path: str) -> str | None:
    from pyarrow import ArrowInvalid, parquet  # costs 100 ms, once

    try:
        with snapshot.storage.open(f"{snapshot.root}/{path}") as file:
            footer = parquet.read_metadata(file)
            return str(footer.row_group(0).column(0).compression) if footer.num_row_groups else None
    except (OSError, ArrowInvalid):
        return None
