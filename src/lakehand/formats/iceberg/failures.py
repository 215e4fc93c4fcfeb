# SPDX-License-Identifier: Apache-2.0
"""Why an attempt on an Iceberg table failed, and what follows: never again, again, or not yet."""

import re
from dataclasses import dataclass
from datetime import timedelta

from lakehand.spi import EngineStatus, Failure, Operation, Remedy, Table

LONGEST = 2000
FIRST_WAIT = timedelta(minutes=1)  # after a conflict; doubled with each, so that writers get through
LONGEST_WAIT = timedelta(minutes=30)
CONFLICT = "write-conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    sign: re.Pattern[str]  # found in "class: message"
    reason: str
    remedy: Remedy = Remedy.RETRY
    delay: timedelta | None = None
    advice: str = ""


def rule(
    sign: str, reason: str, remedy: Remedy = Remedy.RETRY, *, minutes: int | None = None, advice: str = ""
) -> Rule:
    delay = timedelta(minutes=minutes) if minutes else None
    return Rule(sign=re.compile(sign, re.IGNORECASE), reason=reason, remedy=remedy, delay=delay, advice=advice)


RULES = (
    rule(
        r"CommitStateUnknown", "commit-unknown", Remedy.NOT_YET, minutes=2,
        advice="the catalog did not say whether it committed: the table is asked again before anything is done",
    ),
    rule(r"refusals\.Implausible", "implausible", Remedy.FATAL),
    rule(r"refusals\.", "refused", Remedy.FATAL),
    rule(
        r"Cannot commit rewrite because of|ValidationException|CommitFailedException|CommitConflict", CONFLICT,
        advice="a writer was faster: the next try plans anew",
    ),
    rule(
        r"NoSuchTableException|NoSuchNamespaceException|Table does not exist", "table-missing", Remedy.FATAL,
        advice="there is no Iceberg table at its place",
    ),
    rule(
        r"ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError|UnsupportedFileSystem|No FileSystem for scheme"
        r"|Cannot initialize (Catalog|FileIO)", "class-missing", Remedy.FATAL,
        advice="the table needs a class that the driver does not have: add its jar to the engine",
    ),
    rule(r"OutOfMemoryError|Java heap space", "out-of-memory", advice="give the driver or its executors more memory"),
    rule(r"AccessControlException|AccessDenied|permission denied", "denied", advice="the driver may not touch a file"),
    rule(r"FileNotFoundException|NotFoundException|NoSuchFileException", "file-missing"),
)  # fmt: skip


def classify(table: Table, operation: Operation, status: EngineStatus) -> Failure:
    text = f"{status.error_class}: {status.message}"
    message = (status.message or "the engine gave no reason")[:LONGEST]
    known = next((rule for rule in RULES if rule.sign.search(text)), None)
    if known is None:
        return Failure(reason=status.error_class.rpartition(".")[2] or "failed", message=message)
    told = f"{known.advice}: {message}" if known.advice else message
    if known.reason == "implausible":
        told = f"{message}. To go on: lakehand operations submit {table.id} {operation.process.action} --confirm"
    delay = wait(operation) if known.reason == CONFLICT else known.delay
    return Failure(reason=known.reason, message=told, remedy=known.remedy, delay=delay)


def wait(operation: Operation) -> timedelta:
    doublings = min(max(operation.run_times - 1, 0), 10)
    return min(FIRST_WAIT * (1 << doublings), LONGEST_WAIT)
