# SPDX-License-Identifier: Apache-2.0
"""Where a commit of ours cannot overwrite a writer's: Delta's log stores, by storage."""

from lakehand.domain.locations import storage_scheme
from lakehand.formats.delta import settings
from lakehand.formats.delta.settings import DeltaContext
from lakehand.spi import kit

# What Delta itself commits to atomically: by rename, or by a write that fails if the file is there.
SAFE = kit.ATOMIC_RENAME | {"abfs", "wasb", "gs"}
S3 = "s3"
SAFE_LOG_STORES = frozenset({"io.delta.storage.S3DynamoDBLogStore"})
LOG_STORE = "spark.delta.logStore.s3a.impl"


def commit_risk(context: DeltaContext) -> str | None:
    """On S3 Delta's default log store protects the commits of one driver from each other, and nobody else's."""
    if context.values[settings.ONLY_WRITER] or safe_log_store(context):
        return None
    way_out = f"Set {LOG_STORE} under [spark] to {' or '.join(sorted(SAFE_LOG_STORES))}, as the table's writers have it"
    what = "one of two Delta commits is lost"
    location = context.table.table.location
    return kit.commit_risk(location, SAFE, settings.ONLY_WRITER, what=what, way_out=way_out) or None


def safe_log_store(context: DeltaContext) -> str | None:
    """The log store that makes a commit to this table safe, which the job looks for again."""
    log_store = context.values[settings.LOG_STORE]
    is_needed = storage_scheme(context.table.table.location) == S3
    return log_store if is_needed and log_store in SAFE_LOG_STORES else None
