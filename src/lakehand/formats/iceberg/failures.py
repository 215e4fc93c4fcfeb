# SPDX-License-Identifier: Apache-2.0
"""Why an attempt on an Iceberg table failed, and what follows: never again, again, or not yet."""

from datetime import timedelta

from lakehand.spi import Remedy
from lakehand.spi.kit import rule

FIRST_WAIT = timedelta(minutes=1)  # after a conflict; doubled with each, so that writers get through
LONGEST_WAIT = timedelta(minutes=30)
RULES = (
    rule(
        r"CommitStateUnknown", "commit-unknown", Remedy.NOT_YET, delay=timedelta(minutes=2),
        advice="the catalog did not say whether it committed: the table is asked again before anything is done",
    ),
    rule(
        r"Cannot commit rewrite because of|ValidationException|CommitFailedException|CommitConflict",
        "write-conflict", delay=FIRST_WAIT, longest_delay=LONGEST_WAIT,
        advice="a writer was faster: the next attempt plans anew",
    ),
    rule(
        r"NoSuchTableException|NoSuchNamespaceException|Table does not exist", "table-missing", Remedy.FATAL,
        advice="there is no Iceberg table at its location",
    ),
    rule(
        r"UnsupportedFileSystem|No FileSystem for scheme|Cannot initialize (Catalog|FileIO)", "class-missing",
        Remedy.FATAL,
        advice="the table needs a class that the driver does not have: add its jar to the engine",
    ),
    rule(r"(?<!Class)NotFoundException", "file-missing"),
)  # fmt: skip
