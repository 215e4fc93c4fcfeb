# SPDX-License-Identifier: Apache-2.0
"""What the actions of Paimon share: their context, settings, known failures, and where a commit is safe."""

from datetime import timedelta
from typing import TypeVar

from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Catalog, kit

T = TypeVar("T")
PaimonContext = kit.DecisionContext[PaimonSnapshot]
PaimonEffect = kit.Effect[PaimonSnapshot]
LOCK = "lock.enabled"
# The addresses that Paimon has a lock for. On SQLite, which it has one for, too, two applications block each other.
LOCKING_DATABASE = "jdbc:mysql:"
ONLY_WRITER = kit.only_writer_setting("paimon")
ROWS = kit.rows_in(globals())
RULES = (
    kit.rule(r"MetadataUnreadable", "metadata-unreadable", delay=timedelta(minutes=10), advice="nothing was deleted"),
    kit.rule(
        r"conflicts detected|which is not previously added|Conflict files are", "write-conflict",
        delay=timedelta(minutes=2), advice="a writer was first; the next attempt plans anew",
    ),
    kit.rule(
        r"can't determine the success", "commit-unknown", delay=timedelta(minutes=1),
        advice="the table is asked for the commit before anything is tried again",
    ),
    kit.table_missing(
        r"Schema file not found|TableNotExistException|NoSuchTableException|Couldn't load table|DatabaseNotExist",
        "Paimon",
    ),
)  # fmt: skip


def set_retention(context: PaimonContext, row: kit.SettingRow[T]) -> T | None:
    """What counts, if the operator or the table set any: a request alone switches no deletion on."""
    return context.values.get(row) if row.key in context.values.config.settings else None


def commit_risk(context: PaimonContext) -> str | None:
    """A snapshot is renamed to its number. Object stores let two of the same number follow each other."""
    if context.values[ONLY_WRITER] or has_lock(context.table.reference.catalog):
        return None
    return kit.commit_risk(
        context.table.table.location, kit.ATOMIC_RENAME, ONLY_WRITER,
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
