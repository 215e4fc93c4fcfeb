# SPDX-License-Identifier: Apache-2.0
"""Why an attempt on a Lance table failed, and what follows: again with a new plan, or never."""

from datetime import timedelta

from lakehand.spi import Remedy
from lakehand.spi.kit import rule

RULES = (
    rule(r"LiveFileInDanger", "live-file", Remedy.FATAL, advice="nothing was deleted: report this table to us"),
    rule(
        r"commit conflict|CommitConflictError|incompatible transaction|preempted by|too many concurrent writers",
        "write-conflict", delay=timedelta(minutes=1), advice="a writer committed first; the next attempt plans anew",
    ),
    rule(
        r"No module named '?lance|ModuleNotFoundError", "library-missing", Remedy.FATAL,
        advice="pylance must be installed where the driver and its executors run",
    ),
    rule(
        r"Dataset at path .{0,1024} was not found|TableNotFound", "table-missing", Remedy.FATAL,
        advice="there is no Lance table at the location",
    ),
    rule(r"Not found|NoSuchFile|FileNotFound", "file-missing", advice="a file went while it was read"),
)  # fmt: skip
