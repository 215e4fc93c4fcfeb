# SPDX-License-Identifier: Apache-2.0
"""Why an attempt on a Delta table failed, and what follows: again with a fresh plan, or never without a person."""

import re
from dataclasses import dataclass
from datetime import timedelta

from lakehand.spi import EngineStatus, Failure, Remedy

LONGEST = 2000
AFTER_CONFLICT = timedelta(minutes=2)  # the writer that won may be at it for a while


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
        advice="nothing was deleted. Look at `lakehand operations submit {table} {action} --dry-run`; if the list is"
        " right: `lakehand operations submit {table} {action} --confirm`",
    ),
    rule(r"LiveFileListed", "live-file-listed", Remedy.FATAL, advice="nothing was deleted"),
    rule(r"BelowTheFloor|low retention period", "below-the-floor", Remedy.FATAL, advice="nothing was deleted"),
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
    rule(
        r"ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError", "class-missing", Remedy.FATAL,
        advice="the table needs a class that the driver does not have: add its jar to the engine",
    ),
    rule(r"OutOfMemoryError|Java heap space", "out-of-memory", advice="give the driver or its executors more memory"),
    rule(r"AccessControlException|AccessDenied|permission denied", "denied", advice="the driver may not touch a file"),
    rule(r"FileNotFoundException|NoSuchFileException|DELTA_FILE_NOT_FOUND|FILE_NOT_EXIST", "file-missing"),
)  # fmt: skip


def classify(status: EngineStatus, *, table: str, action: str) -> Failure:
    text = f"{status.error_class}: {status.message}"
    message = (status.message or "the engine gave no reason")[:LONGEST]
    for known in RULES:
        if known.sign.search(text):
            advice = known.advice.format(table=table, action=action)
            told = f"{message} ({advice})" if advice else message
            return Failure(reason=known.reason, message=told, remedy=known.remedy, delay=known.delay)
    return Failure(reason=status.error_class.rpartition(".")[2] or "failed", message=message)
