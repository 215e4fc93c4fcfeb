# SPDX-License-Identifier: Apache-2.0
"""The answer to commit events: how many were stored, ignored and refused, and why."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

from lakehand.domain.commits import CommitResult, Outcome

MOST_REASONS = 20


class Reason(BaseModel):
    outcome: str = Field(examples=["refused"])
    reason: str
    count: int
    example: str = Field(default="", description="One of the tables or objects.")


class CommitsAnswer(BaseModel):
    """What became of the events of a request. Stored ones are durable, and their tables are evaluated next."""

    stored: int = 0
    ignored: int = Field(default=0, description="No commit, or the same event again.")
    waiting: int = Field(default=0, description="The table is registered when its catalog has been read.")
    refused: int = 0
    tables: int = Field(default=0, description="How many tables the stored events are about.")
    reasons: list[Reason] = Field(default=[], description=f"At most {MOST_REASONS}.")


def answer_of(results: Sequence[CommitResult]) -> bytes:
    """As JSON. On the hot path: made without the model."""
    counts = Counter(one.outcome for one in results)
    reasons: dict[tuple[Outcome, str], dict[str, Any]] = {}
    for one in results if counts[Outcome.STORED] < len(results) else ():
        known = reasons.get((one.outcome, one.reason))
        if known is not None:
            known["count"] += 1
        elif one.outcome is not Outcome.STORED and len(reasons) < MOST_REASONS:
            new = {"outcome": one.outcome, "reason": one.reason, "count": 1, "example": one.example}
            reasons[one.outcome, one.reason] = new
    tables = len({one.table for one in results if one.table is not None})
    named = {str(outcome): counts[outcome] for outcome in Outcome}
    return json.dumps({**named, "tables": tables, "reasons": list(reasons.values())}, separators=(",", ":")).encode()
