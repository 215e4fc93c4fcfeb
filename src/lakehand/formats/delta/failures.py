# SPDX-License-Identifier: Apache-2.0
"""Why an attempt on a Delta table failed, and what follows: again with a fresh plan, or never without a person."""

from datetime import timedelta

from lakehand.spi import Remedy
from lakehand.spi.kit import REFUSED, rule

AFTER_CONFLICT = timedelta(minutes=2)  # the writer that won may be at it for a while
RULES = (
    rule(r"LiveFileListed", "live-file-listed", Remedy.FATAL, advice="nothing was deleted"),
    rule(r"low retention period", REFUSED, Remedy.FATAL, advice="nothing was deleted"),
    rule(
        r"DELTA_CONCURRENT_|ConcurrentModificationException|Concurrent\w+Exception", "write-conflict",
        delay=AFTER_CONFLICT, advice="a writer committed first, and keeps what it wrote",
    ),
    rule(r"DELTA_(METADATA|PROTOCOL)_CHANGED|(Metadata|Protocol)ChangedException", "table-changed"),
    rule(
        r"DELTA_MISSING_DELTA_TABLE|DELTA_TABLE_NOT_FOUND|DELTA_PATH_DOES_NOT_EXIST|is not a Delta table|"
        r"DELTA_TABLE_ONLY_OPERATION|PATH_NOT_FOUND",
        "table-missing", Remedy.FATAL, advice="there is no Delta table at the location",
    ),
    rule(
        r"DELTA_UNSUPPORTED_FEATURES|DELTA_INVALID_PROTOCOL_VERSION|InvalidProtocolVersion", "protocol-unknown",
        Remedy.FATAL, advice="the table wants more than the engine's Delta has",
    ),
    rule(
        r"VACUUM.{0,20}LITE", "lite-impossible", Remedy.FATAL,
        advice="once by listing: `lakehand operations submit {table} {action} --option mode=full`",
    ),
    rule(r"DELTA_FILE_NOT_FOUND|FILE_NOT_EXIST", "file-missing"),
)  # fmt: skip
