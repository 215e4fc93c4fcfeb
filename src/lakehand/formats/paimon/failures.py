# SPDX-License-Identifier: Apache-2.0
"""Why an attempt on a Paimon table failed, and what follows: never again, or again with a fresh plan."""

from datetime import timedelta

from lakehand.spi import Remedy
from lakehand.spi.kit import rule

RULES = (
    rule(r"MetadataUnreadable", "metadata-unreadable", delay=timedelta(minutes=10), advice="nothing was deleted"),
    rule(
        r"conflicts detected|which is not previously added|Conflict files are", "write-conflict",
        delay=timedelta(minutes=2), advice="a writer was first; the next attempt plans anew",
    ),
    rule(
        r"can't determine the success", "commit-unknown", delay=timedelta(minutes=1),
        advice="the table is asked for the commit before anything is tried again",
    ),
    rule(
        r"Schema file not found|TableNotExistException|NoSuchTableException|Couldn't load table|DatabaseNotExist",
        "table-missing", Remedy.FATAL,
    ),
)  # fmt: skip
