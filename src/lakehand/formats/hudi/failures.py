# SPDX-License-Identifier: Apache-2.0
"""Why an attempt on a Hudi table failed, and what follows: never again, again, or not yet."""

import re
from dataclasses import dataclass
from datetime import timedelta

from lakehand.spi import EngineStatus, Failure, Remedy

LONGEST = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    sign: re.Pattern[str]  # found in "class: message"
    reason: str
    remedy: Remedy = Remedy.RETRY
    delay: timedelta | None = None
    advice: str = ""


def rule(
    sign: str, reason: str, remedy: Remedy = Remedy.RETRY, *, seconds: int | None = None, advice: str = ""
) -> Rule:
    delay = timedelta(seconds=seconds) if seconds else None
    return Rule(sign=re.compile(sign, re.IGNORECASE), reason=reason, remedy=remedy, delay=delay, advice=advice)


RULES = (
    rule(
        r"due to heartbeat by concurrent writer/job", "heartbeat", Remedy.NOT_YET, seconds=30,
        advice="another runner has the plan, or one that was killed in the last two minutes had it",
    ),
    rule(
        r"unable to acquire (the )?lock|HoodieLockException|FAILED_TO_ACQUIRE", "lock-held", Remedy.NOT_YET, seconds=30,
        advice="someone holds the table's lock",
    ),
    rule(r"rollbacks\.WriterBusy", "writer-busy", Remedy.NOT_YET, seconds=15),
    rule(r"instants is not exist|is not present as pending or already completed", "plan-not-pending", seconds=5),
    rule(r"TableNotFoundException", "table-missing", Remedy.FATAL, advice="there is no Hudi table at the location"),
    rule(
        r"ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError|Unable to (instantiate|load) class",
        "class-missing", Remedy.FATAL,
        advice="the table needs a class that the driver does not have: add its jar to the engine",
    ),
    rule(
        r"HoodieUpgradeDowngradeException|unknown.{0,40}version|version.{0,60}not supported|unsupported.{0,40}version",
        "version-unknown", Remedy.FATAL, advice="the table is newer or older than the engine's Hudi can write",
    ),
    rule(r"HoodieClusteringUpdateException|WriteConflictException|ConcurrentModificationException", "write-conflict"),
    rule(r"OutOfMemoryError|Java heap space", "out-of-memory", advice="give the driver or its executors more memory"),
    rule(r"AccessControlException|AccessDenied|permission denied", "denied", advice="the driver may not touch a file"),
    rule(r"FileNotFoundException|NoSuchFileException", "file-missing"),
)  # fmt: skip


def classify(status: EngineStatus) -> Failure:
    text = f"{status.error_class}: {status.message}"
    message = (status.message or "the engine gave no reason")[:LONGEST]
    for known in RULES:
        if known.sign.search(text):
            told = f"{known.advice}: {message}" if known.advice else message
            return Failure(reason=known.reason, message=told, remedy=known.remedy, delay=known.delay)
    return Failure(reason=status.error_class.rpartition(".")[2] or "failed", message=message)
