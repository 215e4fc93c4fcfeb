# SPDX-License-Identifier: Apache-2.0
"""The process factory of Paimon: compaction, expiry of snapshots and removal of orphans, planned by ourselves."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from lakehand.formats.paimon import compaction, expiry, orphans, settings, verdicts
from lakehand.formats.paimon.settings import COMPACT, EXPIRE, ORPHANS, PaimonContext
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.formats.paimon.table import PAIMON
from lakehand.spi import Json, ProcessTriggerStrategy, at_fixed_rate
from lakehand.spi.kit import BEFORE, TAG, ActionRow, Actions, Need, PlanningFactory
from lakehand.spi.kit.conversions import whole_number


class PaimonProcessFactory(PlanningFactory[PaimonSnapshot]):
    name = "paimon"
    format = PAIMON
    actions: ClassVar[Actions] = {
        COMPACT: ActionRow(
            strategy=ProcessTriggerStrategy(interval=timedelta(hours=6), on_new_snapshot=True),
            decide=compaction.decide_compact, limits=compaction.compaction_limits, verify=verdicts.verify_compact,
        ),
        EXPIRE: ActionRow(
            strategy=ProcessTriggerStrategy(interval=timedelta(hours=1), on_new_snapshot=True),
            decide=expiry.decide_expire, limits=expiry.expiry_limits, verify=verdicts.verify_expire, has_dry_run=True,
        ),
        ORPHANS: ActionRow(
            strategy=at_fixed_rate(timedelta(days=1), parallelism=4), decide=orphans.decide_orphans,
            limits=orphans.orphan_limits, verify=verdicts.verify_orphans, has_dry_run=True,
        ),
    }  # fmt: skip
    rows = settings.ROWS
    rules = verdicts.RULES
    states = (compaction.SORTED,)
    snapshot_type = PaimonSnapshot

    def has_committed(self, context: PaimonContext) -> bool:
        before = whole_number(context.admitted_parameters.get(BEFORE))
        return context.action == COMPACT and bool(
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
