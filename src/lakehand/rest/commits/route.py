# SPDX-License-Identifier: Apache-2.0
"""The route of commit events as the API describes it, and its answer. ``CommitEvents`` answers in front of it."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lakehand.domain.notifications import CommitResult, Outcome
from lakehand.rest.commits.events import COMMITTED, EXAMPLE, MOST_EVENTS, CommitData

MOST_REASONS = 20
PATH = "/api/v1/commits"
router = APIRouter(tags=["commits"])
EVENT: dict[str, Any] = {
    "type": "object",
    "description": f"A CloudEvent 1.0 of the type {COMMITTED}; its data is a table and its commit.",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1, "maxLength": 1024},
        "source": {"type": "string", "minLength": 1, "maxLength": 1024},
        "type": {"type": "string", "minLength": 1, "maxLength": 250},
        "data": CommitData.model_json_schema(),
    },
    "examples": [EXAMPLE],
}
BATCH: dict[str, Any] = {"type": "array", "items": EVENT, "maxItems": MOST_EVENTS}
ANY: dict[str, Any] = {
    "type": "object",
    "description": "A notification of S3 as it is, also in an envelope of EventBridge, SNS or SQS; or a CloudEvent.",
}
CONTENT = {
    "application/cloudevents+json": {"schema": EVENT},
    "application/cloudevents-batch+json": {"schema": BATCH},
    "application/json": {"schema": ANY},
}
QUERY = [
    {"name": name, "in": "query", "required": False, "description": text, "schema": {"type": "string"}}
    for name, text in (
        ("token", "The writers' token, for senders that can set no headers."),
        ("catalog", "The catalog of tables that events name without one."),
        ("actions", "Register unknown tables with these actions, separated by commas."),
    )
]
DESCRIBED = {"requestBody": {"content": CONTENT}, "parameters": QUERY, "security": [{"HTTPBearer": []}]}


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


@router.post(PATH, status_code=202, openapi_extra=DESCRIBED)
async def take_commits() -> CommitsAnswer:
    """Take commit events: hints that tables have changed. Sending one twice does no harm."""
    raise NotImplementedError("CommitEvents answers this path, in front of the framework")
