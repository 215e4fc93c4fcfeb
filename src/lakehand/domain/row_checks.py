# SPDX-License-Identifier: Apache-2.0
"""Rows on request: how the rows around an operation are compared, and what its job reports of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakehand.domain.errors import Invalid
from lakehand.domain.processes import Finding, Json, TableProcess, Verdict
from lakehand.domain.texts import Word

PROPERTY = "verify-rows"  # of a table, or of a plugin for all tables of its format
PARAMETER = "verify_rows"  # of a request: a mode; of a process: a document, set by the dispatcher
REPORT = "verified_rows"  # in the result of a job; in its notes, what it read before it began
NOTES = "notes"


class RowMode(Word):
    OFF = "off"
    COUNT = "count"  # numbers of rows; from metadata where that is exact
    CHECKSUM = "checksum"  # and an order-free checksum over all values, by reading all of them


STRENGTHS = tuple(RowMode)


class RowOutcome(Word):
    EQUAL = "equal"
    UNEQUAL = "unequal"
    NOT_COMPARED = "not-compared"  # with the reason; it says nothing about the rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReport:
    """What a job found out about the rows, before and after."""

    outcome: RowOutcome
    reason: str
    document: Mapping[str, Json] = field(default_factory=dict)  # with the numbers, as it is stored and shown


def row_mode(text: str, origin: str) -> RowMode:
    word = text.strip().lower()
    if word not in {str(mode) for mode in RowMode}:
        raise Invalid(f"{PROPERTY} is {text!r} (from {origin}): use {', '.join(str(mode) for mode in RowMode)}")
    return RowMode(word)


def mode_of(process: TableProcess) -> RowMode:
    """What was asked for: by a request, or when an earlier attempt was admitted."""
    found = process.parameters.get(PARAMETER)
    text = found.get("mode") if isinstance(found, Mapping) else found
    return row_mode(str(text), "request") if text else RowMode.OFF


def with_mode(process: TableProcess, *modes: RowMode) -> TableProcess:
    """The process as its job gets it. The strongest mode counts: a request can only raise what the table has."""
    mode = max(modes, key=STRENGTHS.index)
    kept = {key: value for key, value in process.parameters.items() if key != PARAMETER}
    return replace(process, parameters=kept if mode is RowMode.OFF else {**kept, PARAMETER: {"mode": str(mode)}})


def only_verifying(process: TableProcess, verdict: Verdict, progress: Mapping[str, Json]) -> TableProcess:
    """The process of the next attempt, after one whose effect the table shows and whose report was lost."""
    notes, asked = progress.get(NOTES), process.parameters.get(PARAMETER)
    kept = asked.get(NOTES) if isinstance(asked, Mapping) else None
    document: dict[str, Json] = {
        "mode": str(mode_of(process)), "only": True, "shown": verdict.reason, "numbers": dict(verdict.numbers),
        NOTES: notes if isinstance(notes, Mapping) and not is_only_verifying(process) else kept,
    }  # fmt: skip
    return replace(process, parameters={**process.parameters, PARAMETER: document})


def is_only_verifying(process: TableProcess) -> bool:
    asked = process.parameters.get(PARAMETER)
    return isinstance(asked, Mapping) and asked.get("only") is True


def verdict_before(process: TableProcess) -> Verdict | None:
    """What the table showed before an attempt that only verifies: it may have moved on since."""
    asked = process.parameters.get(PARAMETER)
    if not isinstance(asked, Mapping) or not is_only_verifying(process):
        return None
    numbers = asked.get("numbers")
    return Verdict(
        finding=Finding.DONE, reason=str(asked.get("shown")), numbers=numbers if isinstance(numbers, Mapping) else {}
    )


def row_report(result: Mapping[str, Json]) -> RowReport | None:
    """The report in a job's result; None if there is none that can be understood."""
    found = result.get(REPORT)
    if not isinstance(found, Mapping) or found.get("outcome") not in {str(one) for one in RowOutcome}:
        return None
    return RowReport(outcome=RowOutcome(str(found["outcome"])), reason=str(found.get("reason") or ""), document=found)


def not_compared(process: TableProcess, reason: str) -> dict[str, Json]:
    """A result for an operation whose rows nobody compared, so that this is never silent."""
    return {REPORT: {"mode": str(mode_of(process)), "outcome": str(RowOutcome.NOT_COMPARED), "reason": reason}}
