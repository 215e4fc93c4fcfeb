# SPDX-License-Identifier: Apache-2.0
"""The settings that several actions of Iceberg tables share."""

from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import kit

IcebergContext = kit.DecisionContext[IcebergSnapshot]
ONLY_WRITER = kit.only_writer_setting("iceberg")
QUIET, REST = ROOM = kit.room_settings(
    "iceberg", "data and deletes", replaces=("iceberg.quiet-seconds", "iceberg.rest-seconds")
)
ROWS = kit.rows_in(globals())
