# SPDX-License-Identifier: Apache-2.0
"""What the verdicts of Delta share: the commits of an operation, its numbers, and why one failed."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from lakehand.formats.delta.log import Commit
from lakehand.formats.delta.snapshot import DeltaSnapshot, version_before
from lakehand.spi import Json, Remedy, Verdict, kit
from lakehand.spi.kit.verdicts import gone

DeltaEffect = kit.Effect[DeltaSnapshot]
AFTER_CONFLICT = timedelta(minutes=2)  # the writer that won may go on for a while
RULES = (
    kit.rule(r"LiveFileListed", "live-file-listed", Remedy.FATAL, advice="nothing was deleted"),
    kit.rule(r"low retention period", kit.REFUSED, Remedy.FATAL, advice="nothing was deleted"),
    kit.rule(
        r"DELTA_CONCURRENT_|ConcurrentModificationException|Concurrent\w+Exception", "write-conflict",
        delay=AFTER_CONFLICT, advice="a writer committed first, and keeps what it wrote",
    ),
    kit.rule(r"DELTA_(METADATA|PROTOCOL)_CHANGED|(Metadata|Protocol)ChangedException", "table-changed"),
    kit.table_missing(
        r"DELTA_MISSING_DELTA_TABLE|DELTA_TABLE_NOT_FOUND|DELTA_PATH_DOES_NOT_EXIST|is not a Delta table|"
        r"DELTA_TABLE_ONLY_OPERATION|PATH_NOT_FOUND",
        "Delta",
    ),
    kit.rule(
        r"DELTA_UNSUPPORTED_FEATURES|DELTA_INVALID_PROTOCOL_VERSION|InvalidProtocolVersion", "protocol-unknown",
        Remedy.FATAL, advice="the table wants more than the engine's Delta has",
    ),
    kit.rule(
        r"VACUUM.{0,20}LITE", "lite-impossible", Remedy.FATAL,
        advice="once by listing: `lakehand operations submit {table} {action} --option mode=full`",
    ),
    kit.rule(r"DELTA_FILE_NOT_FOUND|FILE_NOT_EXIST", "file-missing"),
)  # fmt: skip


def is_older(effect: DeltaEffect) -> Verdict:
    before = version_before(effect.parameters)
    return gone(f"the table is at version {effect.snapshot.version}, and was at {before}")


def numbers(effect: DeltaEffect, commits: Sequence[tuple[int, Commit]], counted: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "versions": [version for version, _ in commits],
        **counted,
        "before": effect.parameters.get("before"),
        "after": effect.snapshot.headline,
    }
