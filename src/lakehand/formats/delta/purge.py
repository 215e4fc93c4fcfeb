# SPDX-License-Identifier: Apache-2.0
"""Whether deletion vectors are worth applying: enough files have one, and enough of their rows are deleted."""

from lakehand.formats.delta import settings
from lakehand.formats.delta.look import Look, Need
from lakehand.formats.delta.settings import PURGE
from lakehand.spi import Skip, amount

MIN_FILES = 10
DELETED_SHARE = 0.05


def decide(look: Look) -> Need | Skip:
    files = look.snapshot.with_vectors
    if not files:
        return Skip(reason=f"none of {len(look.snapshot.files)} files has a deletion vector")
    deleted, size = sum(file.deleted for file in files), sum(file.size for file in files)
    rows = sum(file.rows for file in files if file.rows >= 0)
    share = deleted / rows if rows else 1.0
    told = (
        f"{len(files)} of {len(look.snapshot.files)} files have deletion vectors: {deleted} of {rows} rows in them"
        f" ({share:.1%}) are deleted, {amount(size)} to rewrite"
    )
    least = look.config.number("delta.purge.min-files", MIN_FILES)
    wanted = look.config.ratio("delta.purge.deleted-share", DELETED_SHARE)
    if not look.by_person and (len(files) < least or share < wanted):
        return Skip(reason=f"{told}; {least} files and {wanted:.0%} would be worth it")
    target = settings.target_bytes(look.config, look.snapshot, PURGE, look.options.get("target_file_bytes"))
    return Need(reason=told, parameters={"small_bytes": target, "target_bytes": target})
