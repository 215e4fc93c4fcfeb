# SPDX-License-Identifier: Apache-2.0
"""The route of commit events as the API describes it. ``CommitEvents`` answers it, in front of the framework."""

from typing import Any

from fastapi import APIRouter

from lakehand.rest.commits.answers import CommitsAnswer
from lakehand.rest.commits.events import COMMITTED, EXAMPLE, CommitData
from lakehand.rest.commits.items import MOST_EVENTS

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


@router.post(PATH, status_code=202, openapi_extra=DESCRIBED)
async def take_commits() -> CommitsAnswer:
    """Take commit events: hints that tables have changed. Sending one twice does no harm."""
    raise NotImplementedError("CommitEvents answers this path, in front of the framework")
