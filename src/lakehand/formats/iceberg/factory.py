# SPDX-License-Identifier: Apache-2.0
"""The process factory of Iceberg: rewrites, expiry of snapshots, removal of orphans, statistics."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from lakehand.formats.iceberg import expire_snapshots, rewrite_data, settings, snapshot, statistics, verdicts
from lakehand.formats.iceberg.settings import IcebergContext
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.formats.iceberg.table import ICEBERG
from lakehand.spi import Json, ProcessTriggerStrategy, Skip, at_fixed_rate
from lakehand.spi.kit import BEFORE, ActionDefinition, Actions, Need, PlanningFactory

# Rewrites follow commits; what only time makes necessary follows time.
ON_COMMIT = ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True)


class IcebergProcessFactory(PlanningFactory[IcebergSnapshot]):
    name = "iceberg"
    format = ICEBERG
    actions: ClassVar[Actions] = (
        ActionDefinition(
            name=snapshot.REWRITE_DATA,
            strategy=ON_COMMIT, decide=rewrite_data.decide_data, limits=rewrite_data.data_options, verify=verdicts.verify_rewrite
        ),
        ActionDefinition(
            name=snapshot.REWRITE_POSITION_DELETES,
            strategy=ON_COMMIT, decide=rewrite_data.decide_position_deletes, limits=rewrite_data.delete_options,
            verify=verdicts.verify_rewrite,
        ),
        ActionDefinition(
            name=snapshot.REWRITE_MANIFESTS,
            strategy=ON_COMMIT, decide=rewrite_data.decide_manifests, verify=verdicts.verify_rewrite
        ),
        ActionDefinition(
            name=snapshot.EXPIRE_SNAPSHOTS,
            strategy=at_fixed_rate(timedelta(hours=6)), decide=expire_snapshots.decide_expiry, limits=expire_snapshots.expiry_limits,
            verify=verdicts.verify_expiry, has_dry_run=True,
        ),
        ActionDefinition(
            name=snapshot.REMOVE_ORPHANS,
            strategy=at_fixed_rate(timedelta(days=1), parallelism=2), decide=expire_snapshots.decide_orphans,
            limits=expire_snapshots.orphan_limits, verify=verdicts.verify_orphans, has_dry_run=True, commits=False,
        ),
        ActionDefinition(
            name=snapshot.COMPUTE_STATISTICS,
            strategy=ON_COMMIT, decide=statistics.decide_statistics, limits=statistics.statistics_limits,
            verify=statistics.verify_statistics, is_optional=True,
        ),
        ActionDefinition(
            name=snapshot.COMPUTE_PARTITION_STATISTICS,
            strategy=ON_COMMIT, decide=statistics.decide_statistics, limits=statistics.replaced_file,
            verify=statistics.verify_statistics, is_optional=True,
        ),
    )  # fmt: skip
    rows = settings.ROWS
    rules = verdicts.RULES
    snapshot_type = IcebergSnapshot

    def decide(self, context: IcebergContext) -> Need | Skip:
        never = expire_snapshots.why_never(context.snapshot, context.action)
        if why := never or statistics.why_never(context.snapshot, context.action):
            return Skip(reason=why)
        if context.by_person or expire_snapshots.has_committed(context):
            return Need(reason="")
        return super().decide(context)

    def commit_risk(self, context: IcebergContext) -> str | None:
        return expire_snapshots.commit_risk(context)

    def has_committed(self, context: IcebergContext) -> bool:
        """Statistics carry no tag. (A rewrite is decided upon again: its job finds the tag.)"""
        return statistics.has_committed(context)

    def not_now(self, context: IcebergContext) -> Skip | None:
        return expire_snapshots.not_now(context)

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
