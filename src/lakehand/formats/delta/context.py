# SPDX-License-Identifier: Apache-2.0
"""What the actions of Delta share: their context, settings, known failures, and where a commit is safe."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from lakehand.domain.locations import storage_scheme
from lakehand.formats.delta.log import Commit
from lakehand.formats.delta.snapshot import DeltaSnapshot, version_before
from lakehand.spi import Json, Remedy, Verdict, kit
from lakehand.spi.kit.verdicts import gone

DeltaContext = kit.DecisionContext[DeltaSnapshot]
DeltaEffect = kit.Effect[DeltaSnapshot]
GB = 1024**3
# What Delta itself commits to atomically: by rename, or by a write that fails if the file is there.
SAFE = kit.ATOMIC_RENAME | {"abfs", "wasb", "gs"}
S3 = "s3"
SAFE_LOG_STORES = frozenset({"io.delta.storage.S3DynamoDBLogStore"})
SPARK_LOG_STORE = "spark.delta.logStore.s3a.impl"
ONLY_WRITER = kit.only_writer_setting("delta")
LOG_STORE = kit.text_setting(
    "delta.log-store", "the LogStore that Spark has for this storage; taken from `spark.delta.logStore.s3a.impl`",
    set_by=kit.SetBy.OPERATOR,
)  # fmt: skip
FEATURES = kit.text_setting(
    "delta.table-features", "table features that the engine's Delta has and Lakehand does not know, with commas",
    set_by=kit.SetBy.OPERATOR,
)  # fmt: skip
QUIET, REST = ROOM = kit.room_settings("delta", "files")
ROWS = kit.rows_in(globals())

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


def commit_risk(context: DeltaContext) -> str | None:
    """On S3 Delta's default log store protects the commits of one driver from each other, and nobody else's."""
    if context.values[ONLY_WRITER] or safe_log_store(context):
        return None
    way_out = (
        f"Set {SPARK_LOG_STORE} under [spark] to {' or '.join(sorted(SAFE_LOG_STORES))}, as the table's writers have it"
    )
    what = "one of two Delta commits is lost"
    location = context.table.table.location
    return kit.commit_risk(location, SAFE, ONLY_WRITER, what=what, way_out=way_out) or None


def safe_log_store(context: DeltaContext) -> str | None:
    """The log store that makes a commit to this table safe, which the job looks for again."""
    log_store = context.values[LOG_STORE]
    is_needed = storage_scheme(context.table.table.location) == S3
    return log_store if is_needed and log_store in SAFE_LOG_STORES else None
