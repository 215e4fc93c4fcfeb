# SPDX-License-Identifier: Apache-2.0
"""The settings that several actions of Delta tables share."""

from lakehand.formats.delta.snapshot import DeltaSnapshot
from lakehand.spi import kit

GB = 1024**3
DeltaContext = kit.DecisionContext[DeltaSnapshot]

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
