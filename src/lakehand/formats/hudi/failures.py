# SPDX-License-Identifier: Apache-2.0
"""Why an attempt on a Hudi table failed, and what follows: never again, again, or not yet."""

from datetime import timedelta

from lakehand.spi import Remedy
from lakehand.spi.kit import rule

RULES = (
    rule(
        r"due to heartbeat by concurrent writer/job", "heartbeat", Remedy.NOT_YET, delay=timedelta(seconds=30),
        advice="another runner has the plan, or one that was killed in the last two minutes had it",
    ),
    rule(
        r"unable to acquire (the )?lock|HoodieLockException|FAILED_TO_ACQUIRE", "lock-held", Remedy.NOT_YET,
        delay=timedelta(seconds=30),
        advice="someone holds the table's lock",
    ),
    rule(r"rollbacks\.WriterBusy", "writer-busy", Remedy.NOT_YET, delay=timedelta(seconds=15)),
    rule(
        r"instants is not exist|is not present as pending or already completed", "plan-not-pending",
        delay=timedelta(seconds=5),
    ),
    rule(r"TableNotFoundException", "table-missing", Remedy.FATAL, advice="there is no Hudi table at the location"),
    rule(
        r"Unable to (instantiate|load) class", "class-missing", Remedy.FATAL,
        advice="the table needs a class that the driver does not have: add its jar to the engine",
    ),
    rule(
        r"HoodieUpgradeDowngradeException|unknown.{0,40}version|version.{0,60}not supported|unsupported.{0,40}version",
        "version-unknown", Remedy.FATAL, advice="the table is newer or older than the engine's Hudi can write",
    ),
    rule(r"HoodieClusteringUpdateException|WriteConflictException|ConcurrentModificationException", "write-conflict"),
)  # fmt: skip
