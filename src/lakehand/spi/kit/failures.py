# SPDX-License-Identifier: Apache-2.0
"""Why an attempt failed and what follows: one table of rules per format, and the rules that all formats share."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakehand.domain.operations import Operation
from lakehand.domain.processes import Failure, Remedy, back_off
from lakehand.domain.tables import Table
from lakehand.spi.engines import EngineStatus

LONGEST_MESSAGE = 2000
REFUSED = "refused"  # the one code for what someone asked for and cannot have


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRule:
    pattern: re.Pattern[str]  # found in "class: message"
    reason: str
    remedy: Remedy = Remedy.RETRY
    delay: timedelta | None = None
    longest_delay: timedelta | None = None  # set: the delay doubles with each attempt, up to this
    advice: str = ""  # {table}, its id, and {action} are filled in

    def delay_of(self, operation: Operation) -> timedelta | None:
        if self.delay is None or self.longest_delay is None:
            return self.delay
        return back_off(operation.run_times, first=self.delay, longest=self.longest_delay)


def rule(
    pattern: str,
    reason: str,
    remedy: Remedy = Remedy.RETRY,
    *,
    delay: timedelta | None = None,
    longest_delay: timedelta | None = None,
    advice: str = "",
) -> FailureRule:
    return FailureRule(
        pattern=re.compile(pattern, re.IGNORECASE), reason=reason, remedy=remedy, delay=delay,
        longest_delay=longest_delay, advice=advice,
    )  # fmt: skip


def class_missing(pattern: str) -> FailureRule:
    advice = "the table needs a class that the driver does not have: add its jar to the engine"
    return rule(pattern, "class-missing", Remedy.FATAL, advice=advice)


def table_missing(pattern: str, format: str) -> FailureRule:
    return rule(pattern, "table-missing", Remedy.FATAL, advice=f"there is no {format} table at the location")


SAFETY_RULES = (
    rule(
        r"\bImplausibleShare\b", "implausible-share", Remedy.FATAL,
        advice="nothing was deleted. See the list with `lakehand operations submit {table} {action} --dry-run`; if it"
        " is right: `lakehand operations submit {table} {action} --confirm`",
    ),
    rule(r"\bClassMissing\b", "class-missing", Remedy.FATAL, advice="nothing was changed"),
    rule(r"\b(BelowFloor|UnsafeRequest)\b", REFUSED, Remedy.FATAL, advice="nothing was deleted"),
)  # fmt: skip
ENGINE_RULES = (
    class_missing(r"ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError"),
    rule(
        r"OutOfMemoryError|Java heap space|MemoryError|exit(ed with)? code 137", "out-of-memory",
        advice="give the driver or its executors more memory",
    ),
    rule(
        r"AccessControlException|AccessDenied|permission denied|Forbidden", "denied",
        advice="the driver may not touch a file",
    ),
    rule(r"FileNotFoundException|NoSuchFileException", "file-missing"),
)  # fmt: skip


def classify(rules: Sequence[FailureRule], table: Table, operation: Operation, status: EngineStatus) -> Failure:
    """The first rule that fits. The message says what failed, then what to do."""
    text = f"{status.error_class}: {status.message}"
    message = (status.message or "the engine gave no reason")[:LONGEST_MESSAGE]
    known = next((one for one in (*SAFETY_RULES, *rules, *ENGINE_RULES) if one.pattern.search(text)), None)
    if known is None:
        return Failure(reason=status.error_class.rpartition(".")[2] or "failed", message=message)
    advice = known.advice.format(table=table.id, action=operation.process.action)
    text = f"{message} ({advice})" if advice else message
    return Failure(reason=known.reason, message=text, remedy=known.remedy, delay=known.delay_of(operation))
