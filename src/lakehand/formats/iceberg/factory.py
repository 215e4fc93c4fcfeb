# SPDX-License-Identifier: Apache-2.0
"""The process factory of Iceberg: its actions, each in a file of its own, and what holds for all of them."""

from collections.abc import Mapping
from typing import ClassVar

from lakehand.formats.iceberg import statistics
from lakehand.formats.iceberg.catalogs import HADOOP
from lakehand.formats.iceberg.context import ONLY_WRITER, ROWS, RULES, IcebergContext
from lakehand.formats.iceberg.expire_data import EXPIRE_DATA
from lakehand.formats.iceberg.expire_snapshots import EXPIRE_SNAPSHOTS
from lakehand.formats.iceberg.metadata import NEWEST
from lakehand.formats.iceberg.remove_orphans import REMOVE_ORPHANS
from lakehand.formats.iceberg.rewrite_data import REWRITE_DATA
from lakehand.formats.iceberg.rewrite_manifests import REWRITE_MANIFESTS
from lakehand.formats.iceberg.rewrite_position_deletes import REWRITE_POSITION_DELETES
from lakehand.formats.iceberg.rewrites import has_committed
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.formats.iceberg.table import ICEBERG
from lakehand.spi import Json, Skip
from lakehand.spi.kit import ATOMIC_RENAME, BEFORE, Actions, Need, PlanningFactory, commit_risk


class IcebergProcessFactory(PlanningFactory[IcebergSnapshot]):
    name = "iceberg"
    format = ICEBERG
    actions: ClassVar[Actions] = (
        REWRITE_DATA, REWRITE_POSITION_DELETES, REWRITE_MANIFESTS, EXPIRE_SNAPSHOTS, REMOVE_ORPHANS,
        *statistics.COMPUTE, EXPIRE_DATA,
    )  # fmt: skip
    rows = ROWS
    rules = RULES
    snapshot_type = IcebergSnapshot

    def decide(self, context: IcebergContext) -> Need | Skip:
        if why := why_never(context.snapshot) or self.why_impossible(context):
            return Skip(reason=why)
        if context.by_person or has_committed(context):
            return Need(reason="")
        return super().decide(context)

    def commit_risk(self, context: IcebergContext) -> str | None:
        """A catalog commits one of two and refuses the other. Hadoop layout needs a rename that does not overwrite."""
        catalog = context.table.reference.catalog
        if (catalog is not None and catalog.type != HADOOP) or context.values[ONLY_WRITER]:
            return None
        return commit_risk(
            context.table.table.location, ATOMIC_RENAME, ONLY_WRITER,
            what="one of two commits to a table in Hadoop layout is lost",
            way_out="Keep the table in a catalog (REST, JDBC, Hive), and register it by that",
        ) or None  # fmt: skip

    def has_committed(self, context: IcebergContext) -> bool:
        """Statistics carry no tag. (A rewrite is decided upon again: its job finds the tag.)"""
        return statistics.has_committed(context)

    def parameters(self, context: IcebergContext, need: Need) -> Mapping[str, Json]:
        current, reference = context.snapshot.current, context.table.reference
        return {
            "catalog": reference.catalog.name if reference.catalog else "",
            "namespace": reference.db_name if reference.catalog else "",
            "table": reference.table_name if reference.catalog else "",
            "identity": context.snapshot.identity,
            BEFORE: current.id if current else None,
            "seen": context.snapshot.totals(),
            **super().parameters(context, need),
        }


def why_never(snapshot: IcebergSnapshot) -> str | None:
    if snapshot.version > NEWEST and not snapshot.why_read_only:
        return f"the table has format version {snapshot.version}; up to {NEWEST} are known"
    return snapshot.why_read_only or None
