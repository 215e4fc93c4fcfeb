# SPDX-License-Identifier: Apache-2.0
"""Known failures of Paimon."""

from datetime import timedelta

from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import kit

PaimonEffect = kit.Effect[PaimonSnapshot]
RULES = (
    kit.rule(r"MetadataUnreadable", "metadata-unreadable", delay=timedelta(minutes=10), advice="nothing was deleted"),
    kit.rule(
        r"conflicts detected|which is not previously added|Conflict files are", "write-conflict",
        delay=timedelta(minutes=2), advice="a writer was first; the next attempt plans anew",
    ),
    kit.rule(
        r"can't determine the success", "commit-unknown", delay=timedelta(minutes=1),
        advice="the table is asked for the commit before anything is tried again",
    ),
    kit.table_missing(
        r"Schema file not found|TableNotExistException|NoSuchTableException|Couldn't load table|DatabaseNotExist",
        "Paimon",
    ),
)  # fmt: skip
