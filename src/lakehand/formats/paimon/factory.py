# SPDX-License-Identifier: Apache-2.0
"""The process factory of Paimon: its actions, each in a file of its own, and what all of their jobs must know."""

from collections.abc import Mapping
from typing import ClassVar

from lakehand.formats.paimon.compact import COMPACT, SORTED
from lakehand.formats.paimon.context import ROWS, RULES, PaimonContext, commit_risk
from lakehand.formats.paimon.expire_partitions import EXPIRE_PARTITIONS
from lakehand.formats.paimon.expire_snapshots import EXPIRE_SNAPSHOTS
from lakehand.formats.paimon.expire_tags import EXPIRE_TAGS
from lakehand.formats.paimon.remove_orphans import REMOVE_ORPHANS
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.formats.paimon.table import PAIMON
from lakehand.spi import Json
from lakehand.spi.kit import BEFORE, TAG, Actions, Need, PlanningFactory
from lakehand.spi.kit.conversions import whole_number

COMMITTING = (COMPACT.name, EXPIRE_PARTITIONS.name)  # their snapshots carry the operation's tag


class PaimonProcessFactory(PlanningFactory[PaimonSnapshot]):
    name = "paimon"
    format = PAIMON
    actions: ClassVar[Actions] = (COMPACT, EXPIRE_SNAPSHOTS, REMOVE_ORPHANS, EXPIRE_PARTITIONS, EXPIRE_TAGS)
    rows = ROWS
    rules = RULES
    states = (SORTED,)
    snapshot_type = PaimonSnapshot

    def commit_risk(self, context: PaimonContext) -> str | None:
        return commit_risk(context)

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
