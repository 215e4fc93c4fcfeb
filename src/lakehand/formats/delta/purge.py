# SPDX-License-Identifier: Apache-2.0
"""Rewrites files without the rows that their deletion vectors mark."""

from lakehand.formats.delta.context import DeltaContext
from lakehand.formats.delta.rewrites import ON_COMMIT, leaves_room, target_bytes, target_setting, verify_rewrite
from lakehand.spi import Action, Skip, amount, kit
from lakehand.spi.kit import Need

TARGET_BYTES = target_setting("purge")
MIN_FILES = kit.count_setting("delta.purge.min-files", "so many files must have deletion vectors", 10)
DELETED_SHARE = kit.share_setting("delta.purge.deleted-share", "and this share of their rows must be deleted", 0.05)


def decide(context: DeltaContext) -> Need | Skip:
    files = context.snapshot.with_vectors
    if not files:
        return Skip(reason=f"none of {len(context.snapshot.files)} files has a deletion vector")
    deleted, size = sum(file.deleted for file in files), sum(file.size for file in files)
    rows = sum(file.rows for file in files if file.rows >= 0)
    share = deleted / rows if rows else 1.0
    text = (
        f"{len(files)} of {len(context.snapshot.files)} files have deletion vectors: {deleted} of {rows} rows in them"
        f" ({share:.1%}) are deleted, {amount(size)} to rewrite"
    )
    least, wanted = context.values[MIN_FILES], context.values[DELETED_SHARE]
    if not context.by_person and (len(files) < least or share < wanted):
        return Skip(reason=f"{text}; {least} files and {wanted:.0%} would be worth it")
    target = target_bytes(context, TARGET_BYTES)
    return Need(reason=text, parameters={"small_bytes": target, "target_bytes": target}, bytes=size)


PURGE = kit.ActionDefinition(
    name=Action.register("purge"), strategy=ON_COMMIT, settings=(TARGET_BYTES, MIN_FILES, DELETED_SHARE),
    decide=decide, not_now=leaves_room, verify=verify_rewrite,
)  # fmt: skip
