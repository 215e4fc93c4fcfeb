# SPDX-License-Identifier: Apache-2.0
"""Why an attempt on a Paimon table failed, and what follows: never again, or again with a fresh plan."""

import re
from dataclasses import dataclass
from datetime import timedelta

from lakehand.spi import Action, EngineStatus, Failure, Remedy

LONGEST = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    sign: re.Pattern[str]  # found in "class: message"
    reason: str
    remedy: Remedy = Remedy.RETRY
    delay: timedelta | None = None
    advice: str = ""


def rule(
    sign: str, reason: str, remedy: Remedy = Remedy.RETRY, *, delay: timedelta | None = None, advice: str = ""
) -> Rule:
    return Rule(sign=re.compile(sign, re.IGNORECASE), reason=reason, remedy=remedy, delay=delay, advice=advice)


RULES = (
    rule(
        r"ImplausibleShare", "implausible-share", Remedy.FATAL,
        advice="nothing was deleted. If this is right: lakehand operations submit TABLE {action} --confirm",
    ),
    rule(r"BelowFloor", "below-floor", Remedy.FATAL, advice="nothing was deleted"),
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
    rule(r"ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError", "class-missing", Remedy.FATAL),
    rule(r"OutOfMemoryError|Java heap space", "out-of-memory", advice="give the driver or its executors more memory"),
    rule(r"AccessControlException|AccessDenied|permission denied", "denied", advice="the driver may not touch a file"),
    rule(r"FileNotFoundException|NoSuchFileException", "file-missing"),
)  # fmt: skip


def classify(action: Action, status: EngineStatus) -> Failure:
    text = f"{status.error_class}: {status.message}"
    message = (status.message or "the engine gave no reason")[:LONGEST]
    for known in RULES:
        if known.sign.search(text):
            advice = known.advice.replace("{action}", action)
            told = f"{message} ({advice})" if advice else message
            return Failure(reason=known.reason, message=told, remedy=known.remedy, delay=known.delay)
    return Failure(reason=status.error_class.rpartition(".")[2] or "failed", message=message)
