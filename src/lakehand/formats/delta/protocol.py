# SPDX-License-Identifier: Apache-2.0
"""Which tables the engine's Delta can rewrite: what a table demands of its writers against what is known."""

from collections.abc import Collection

from lakehand.formats.delta import properties
from lakehand.formats.delta.snapshot import DeltaSnapshot

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


def why_unknown(snapshot: DeltaSnapshot, more: Collection[str]) -> str | None:
    """Why the engine must leave the table alone; ``more``: features that the operator knows it to have."""
    protocol = snapshot.state.protocol
    reader, writer = protocol.get("minReaderVersion") or 0, protocol.get("minWriterVersion") or 0
    if reader > READER or writer > WRITER:
        return (
            f"the table wants protocol reader {reader}, writer {writer};"
            f" the engine's Delta has reader {READER}, writer {WRITER}"
        )
    if unknown := sorted(snapshot.features - FEATURES - set(more)):
        return f"the table has features that the engine's Delta may not know: {', '.join(unknown)}"
    if formats := snapshot.configuration.get(properties.OTHER_FORMATS):
        return f"the table is also kept as {formats}: only an engine that writes both may rewrite it"
    return None
