# SPDX-License-Identifier: Apache-2.0
"""The process factory of Delta: its actions, each in a file of its own, and what holds for all of them."""

from collections.abc import Collection, Mapping
from typing import ClassVar

from lakehand.formats.delta.checkpoint import CHECKPOINT
from lakehand.formats.delta.clean_log import CLEAN_LOG
from lakehand.formats.delta.context import FEATURES as MORE_FEATURES
from lakehand.formats.delta.context import ROWS, RULES, DeltaContext, commit_risk, safe_log_store
from lakehand.formats.delta.expire_data import EXPIRE_DATA
from lakehand.formats.delta.optimize import OPTIMIZE
from lakehand.formats.delta.purge import PURGE
from lakehand.formats.delta.snapshot import DeltaSnapshot, tagged
from lakehand.formats.delta.table import DELTA
from lakehand.formats.delta.vacuum import LAST_FULL, VACUUM
from lakehand.formats.delta.z_order import CLUSTERED, Z_ORDER
from lakehand.spi import Json, Skip
from lakehand.spi.kit import BEFORE, Actions, Need, PlanningFactory

READER, WRITER = 3, 7  # the newest protocol versions of Delta 3.3
# Of Delta 3.3.3. Previews and commits that a catalog coordinates are left out: they need more than the engine has.
FEATURES = frozenset(
    {
        "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "checkpointProtection",
        "clustering", "columnMapping", "deletionVectors", "domainMetadata", "generatedColumns", "icebergCompatV1",
        "icebergCompatV2", "identityColumns", "inCommitTimestamp", "invariants", "rowTracking", "timestampNtz",
        "typeWidening", "v2Checkpoint", "vacuumProtocolCheck",
    }
)  # fmt: skip
OTHER_FORMATS = "delta.universalFormat.enabledFormats"


class DeltaProcessFactory(PlanningFactory[DeltaSnapshot]):
    name = "delta"
    format = DELTA
    actions: ClassVar[Actions] = (OPTIMIZE, Z_ORDER, PURGE, VACUUM, CHECKPOINT, CLEAN_LOG, EXPIRE_DATA)
    rows = ROWS
    rules = RULES
    states = (CLUSTERED, LAST_FULL)
    snapshot_type = DeltaSnapshot

    def commit_risk(self, context: DeltaContext) -> str | None:
        return commit_risk(context)

    def decide(self, context: DeltaContext) -> Need | Skip:
        features = {name.strip() for name in context.values[MORE_FEATURES].split(",")}
        if why := why_unknown(context.snapshot, features):
            return Skip(reason=why)
        return super().decide(context)

    def has_committed(self, context: DeltaContext) -> bool:
        return bool(tagged(context.snapshot, context.admitted_parameters))

    def parameters(self, context: DeltaContext, need: Need) -> Mapping[str, Json]:
        """A later attempt must find what the first may have committed, so that ``before`` stays as it was."""
        before = context.first(BEFORE, context.snapshot.headline)
        log_store = safe_log_store(context)
        return {**need.parameters, BEFORE: before, "identity": context.snapshot.identity, "log_store": log_store}


def why_unknown(snapshot: DeltaSnapshot, more: Collection[str]) -> str | None:
    """Why the engine must not rewrite the table; ``more``: features that the operator knows the engine to have."""
    protocol = snapshot.state.protocol
    reader, writer = protocol.get("minReaderVersion") or 0, protocol.get("minWriterVersion") or 0
    if reader > READER or writer > WRITER:
        return (
            f"the table wants protocol reader {reader}, writer {writer};"
            f" the engine's Delta has reader {READER}, writer {WRITER}"
        )
    if unknown := sorted(snapshot.features - FEATURES - set(more)):
        return f"the table has features that the engine's Delta may not know: {', '.join(unknown)}"
    if formats := snapshot.configuration.get(OTHER_FORMATS):
        return f"the table is also kept as {formats}: only an engine that writes both may rewrite it"
    return None
