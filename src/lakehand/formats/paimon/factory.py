# SPDX-License-Identifier: Apache-2.0
"""The process factory of Paimon: compaction, removal of orphans, and expiry of snapshots, partitions and tags."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from lakehand.formats.paimon import (
    commits,
    compact,
    expire_partitions,
    expire_snapshots,
    expire_tags,
    remove_orphans,
    settings,
    verdicts,
)
from lakehand.formats.paimon.settings import COMPACT, EXPIRE, EXPIRE_PARTITIONS, EXPIRE_TAGS, ORPHANS, PaimonContext
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.formats.paimon.table import PAIMON
from lakehand.spi import Json, ProcessTriggerStrategy, at_fixed_rate
from lakehand.spi.kit import BEFORE, TAG, ActionDefinition, Actions, Need, PlanningFactory
from lakehand.spi.kit.conversions import whole_number

COMMITTING = (COMPACT, EXPIRE_PARTITIONS)  # their snapshots carry the operation's tag


class PaimonProcessFactory(PlanningFactory[PaimonSnapshot]):
    name = "paimon"
    format = PAIMON
    actions: ClassVar[Actions] = (
        ActionDefinition(
            name=COMPACT,
            strategy=ProcessTriggerStrategy(interval=timedelta(hours=6), on_new_snapshot=True),
            decide=compact.decide_compact, limits=compact.compaction_limits, verify=verdicts.verify_compact,
        ),
        ActionDefinition(
            name=EXPIRE,
            strategy=ProcessTriggerStrategy(interval=timedelta(hours=1), on_new_snapshot=True),
            decide=expire_snapshots.decide_expire, limits=expire_snapshots.expiry_limits, verify=verdicts.verify_expire, has_dry_run=True,
        ),
        ActionDefinition(
            name=ORPHANS,
            strategy=at_fixed_rate(timedelta(days=1), parallelism=4), decide=remove_orphans.decide_orphans,
            limits=remove_orphans.orphan_limits, verify=verdicts.verify_orphans, has_dry_run=True, commits=False,
        ),
        ActionDefinition(
            name=EXPIRE_PARTITIONS,
            strategy=at_fixed_rate(timedelta(days=1)),
            decide=expire_partitions.decide_expire_partitions,
            limits=expire_partitions.partition_limits, verify=verdicts.verify_expire_partitions, has_dry_run=True,
            is_optional=True,
        ),
        ActionDefinition(
            name=EXPIRE_TAGS,
            strategy=at_fixed_rate(timedelta(days=1)), decide=expire_tags.decide_expire_tags,
            limits=expire_tags.tag_limits, verify=verdicts.verify_expire_tags, has_dry_run=True,
        ),
    )  # fmt: skip
    rows = settings.ROWS
    rules = verdicts.RULES
    states = (compact.SORTED,)
    snapshot_type = PaimonSnapshot

    def commit_risk(self, context: PaimonContext) -> str | None:
        return commits.commit_risk(context)

    def has_committed(self, context: PaimonContext) -> bool:
        before = whole_number(context.admitted_parameters.get(BEFORE))
        return context.action in COMMITTING and bool(
            context.snapshot.tagged(str(context.admitted_parameters[TAG]), after=before)
        )

    def parameters(self, context: PaimonContext, need: Need) -> Mapping[str, Json]:
        """Whatever we committed is younger than the newest snapshot at the first admission."""
        reference = context.table.reference
        return {
            "identity": context.snapshot.identity,
            "catalog": reference.catalog.name if reference.catalog else None,
            "db_name": reference.db_name,
            "table_name": reference.table_name,
            BEFORE: context.first(BEFORE, context.snapshot.latest),
            **super().parameters(context, need),
        }
