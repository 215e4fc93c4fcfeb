# SPDX-License-Identifier: Apache-2.0
"""The route of commit events. It only reads the request: the handler's thread does the rest."""

from typing import Any

from fastapi import APIRouter, Request, Response

from lakehand.domain.errors import LakehandError, Unauthorized
from lakehand.rest.access import address_of, refused
from lakehand.rest.commits.answers import CommitsAnswer
from lakehand.rest.commits.cloud_events import COMMITTED, EXAMPLE, CommitData
from lakehand.rest.commits.handler import CommitHandler, CommitRequest
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


@router.post(PATH, status_code=202, response_model=CommitsAnswer, openapi_extra=DESCRIBED)
async def take_commits(request: Request) -> Response:
    """Take commit events: hints that tables have changed. Sending one twice does no harm."""
    handler: CommitHandler = request.app.state.commit_handler
    headers = dict(request.headers)
    given = CommitRequest(
        headers=headers, query=request.url.query, body=await request.body(), address=address_of(request.scope)
    )
    answer = await handler.group_commit.put(given, weight=given.weight)
    if isinstance(answer, Unauthorized):
        raise refused(request, str(answer))
    if isinstance(answer, LakehandError):
        raise type(answer)(str(answer))
    return Response(answer.model_dump_json(), 202, media_type="application/json")
