# SPDX-License-Identifier: Apache-2.0
"""Why an attempt on a Lance table failed, and what follows: again with a new plan, or never."""

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
    rule(r"BelowFloor", "below-floor", Remedy.FATAL, advice="versions this young are never cleaned"),
    rule(r"LiveFileInDanger", "live-file", Remedy.FATAL, advice="nothing was deleted: report this table to us"),
    rule(
        r"commit conflict|CommitConflictError|incompatible transaction|preempted by|too many concurrent writers",
        "write-conflict", seconds=60, advice="a writer committed first; the next attempt plans anew",
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
    rule(r"OutOfMemory|MemoryError|exit(ed with)? code 137", "out-of-memory", advice="give the executors more memory"),
    rule(r"permission denied|AccessDenied|Forbidden", "denied", advice="a file may not be touched"),
)  # fmt: skip


def classify(status: EngineStatus) -> Failure:
    text = f"{status.error_class}: {status.message}"
    message = (status.message or "the engine gave no reason")[:LONGEST]
    for known in RULES:
        if known.sign.search(text):
            told = f"{known.advice}: {message}" if known.advice else message
            return Failure(reason=known.reason, message=told, remedy=known.remedy, delay=known.delay)
    return Failure(reason=status.error_class.rpartition(".")[2] or "failed", message=message)
