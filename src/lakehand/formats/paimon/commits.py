# SPDX-License-Identifier: Apache-2.0
"""Where a snapshot of ours cannot overwrite a writer's: on storage with atomic renames, or under a catalog's lock."""

from lakehand.formats.paimon import settings
from lakehand.formats.paimon.settings import PaimonContext
from lakehand.spi import Catalog, kit

LOCK = "lock.enabled"
# The addresses that Paimon has a lock for. On SQLite, which it has one for, too, two applications block each other.
LOCKING_DATABASE = "jdbc:mysql:"


def commit_risk(context: PaimonContext) -> str | None:
    """A snapshot is renamed to its number. Object stores let two of the same number follow each other."""
    if context.values[settings.ONLY_WRITER] or has_lock(context.table.reference.catalog):
        return None
    return kit.commit_risk(
        context.table.table.location, kit.ATOMIC_RENAME, settings.ONLY_WRITER,
        what="one of two Paimon snapshots is lost",
        way_out="Let the table's writers do it (write-only=false); or use a Hive metastore, or a JDBC catalog on "
        f"MySQL, with {LOCK}=true for all writers",
    ) or None  # fmt: skip


def has_lock(catalog: Catalog | None) -> bool:
    """As the engine is told: writers must have the same lock."""
    if catalog is None:
        return False
    properties = dict(catalog.engine_properties)
    has_one = catalog.type == "hive" or (
        catalog.type == "jdbc" and properties.get("uri", "").startswith(LOCKING_DATABASE)
    )
    return has_one and properties.get(LOCK, "").lower() == "true"
