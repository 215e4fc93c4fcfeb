# SPDX-License-Identifier: Apache-2.0
"""Handles requests with commit events: who sends them, what is in them, and one transaction for many.

Senders are checked first, before their bodies are read: a token that must wait for its issuer delays nobody else. What
is in the bodies is read and stored in one thread. Group commit: requests that arrive during one transaction share the
next one. An answer with "stored" is durable. The route, as the API describes it, is at the end: ``CommitEvents``
answers in front of it.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lakehand.api.fields import values_of
from lakehand.api.writers import MOST_COMMITS, CommitsAnswer, commits_answer
from lakehand.domain.access import ANONYMOUS, Caller, Role
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, LakehandError, Unauthorized, Unavailable
from lakehand.domain.notifications import CommitResult
from lakehand.rest.bodies import exceeds, read, too_large
from lakehand.rest.commits.events import (
    COMMITTED,
    DATA,
    EXAMPLE,
    LONGEST_NAME,
    Defaults,
    Item,
    quote,
    read_request,
)
from lakehand.rest.context import ApiContext
from lakehand.rest.dependencies import address_of
from lakehand.rest.errors import answer_lakehand_error
from lakehand.rest.group_commit import GroupCommit
from lakehand.rest.wire_requests import known_action, parse_query, split

UNIT = 1024  # bytes of a body that count as one waiting request: bounds what waits for a slow database
KEY_HEADER = "hudi-callback-key"
VIA = "rest"
MOST_ACTIONS = 100
SENDER_THREADS = 4  # for tokens that are not in memory; one of them may wait for the issuer at a time
AGAIN = "send the events again, which does no harm"
MOST_DELIMITERS = 100_000  # a thousand events have less than half of that
ACCEPTED = 202


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    headers: Mapping[str, str]
    query: bytes
    body: bytes = b""
    address: str = ""

    @property
    def weight(self) -> int:
        return 1 + len(self.body) // UNIT


Answer = bytes | LakehandError  # JSON, or why the request as a whole was not taken


@dataclass(kw_only=True)
class CommitHandler:
    context: ApiContext
    group_commit: GroupCommit[CommitRequest, Answer] = field(init=False)
    senders: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(SENDER_THREADS, thread_name_prefix="commit-senders")
    )

    def __post_init__(self) -> None:
        self.group_commit = GroupCommit(
            self.record,
            timeout_answer=Unavailable(f"the database has not answered in time: {AGAIN}"),
            unstored_answer=Unavailable(f"the events were not stored, because the database does not answer: {AGAIN}"),
            timeout=self.context.commits_timeout,
        )

    def close(self) -> None:
        self.group_commit.close()
        self.senders.shutdown(wait=False)

    async def refusal(self, request: CommitRequest) -> LakehandError | None:
        """Why the sender is refused. Neither the database nor the issuer is waited for on the event loop."""
        try:
            address = read_query(request.query)
            if self.is_writer(request, address.token):
                return None
            secret = secret_of(request)
            caller = self.context.services.access.remembered_caller(secret, address=request.address, via=VIA)
            if caller is None or (self.has_secrets and caller.name == ANONYMOUS):
                asked = asyncio.get_running_loop().run_in_executor(self.senders, self.ask_for_caller, request, secret)
                caller = await asyncio.wait_for(asked, self.context.commits_timeout)
            caller.need(Role.OPERATOR)
            caller.need_everything()
        except asyncio.TimeoutError:
            return Unavailable(f"the token cannot be checked now: {AGAIN}")
        except LakehandError as error:
            return error
        return None

    def is_writer(self, request: CommitRequest, token: str) -> bool:
        """Whether the sender has a secret of writers, where there are any."""
        return self.has_secrets and self.context.security.admits_callback(request.headers.get(KEY_HEADER, ""), token)

    @property
    def has_secrets(self) -> bool:
        return bool(self.context.security.wire_token or self.context.security.callback_key)

    def ask_for_caller(self, request: CommitRequest, secret: str) -> Caller:
        """May take a query, or the issuer's time."""
        access = self.context.services.access
        if self.has_secrets and access.is_open:
            raise Unauthorized("the request has no valid secret: send the writers' token as ?token=TOKEN")
        caller = access.caller(secret, address=request.address, via=VIA)
        if caller is None:
            raise Unauthorized("the request has no valid token: send Authorization: Bearer TOKEN")
        return caller

    def record(self, requests: Sequence[CommitRequest]) -> Sequence[Answer]:
        """The answer to each request. Runs in the group commit's thread."""
        parsed = [self.parse(request) for request in requests]
        items = [item for one in parsed if not isinstance(one, LakehandError) for item in one]
        results = iter(self.context.commits.record_all(items))
        return [one if isinstance(one, LakehandError) else answer_of([next(results) for _ in one]) for one in parsed]

    def parse(self, request: CommitRequest) -> Sequence[Item] | LakehandError:
        try:
            return read_request(request.headers, request.body, read_query(request.query).defaults)
        except Unavailable:
            raise
        except LakehandError as error:
            return error


def secret_of(request: CommitRequest) -> str:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


class Address(NamedTuple):
    """What the query says."""

    token: str
    defaults: Defaults


@lru_cache(maxsize=256)
def read_query(query: bytes) -> Address:
    """Cached: a sender repeats its query. Errors are not."""
    given = parse_query(query)
    if given is None:
        raise Invalid("the query cannot be read")
    names = split(given.get("actions", ""), ",")[:MOST_ACTIONS]
    actions: list[Action] = [action for name in names if (action := known_action(name)) is not None]
    if len(actions) < len(names):
        raise Invalid(f"actions={quote(given['actions'])} names an action that nobody knows")
    defaults = Defaults(catalog=given.get("catalog", "")[:LONGEST_NAME], register=frozenset(actions))
    return Address(given.get("token", ""), defaults)


class CommitEvents:
    """Everything else goes on to the app."""

    def __init__(self, app: ASGIApp, *, handler: CommitHandler) -> None:
        self.app = app
        self.handler = handler
        self.most = handler.context.security.max_commits_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        began = time.perf_counter()
        answer = await self.answer(scope, receive)
        if answer is None:
            return None  # the client disconnected: half a request must not change anything
        await answer(scope, receive, send)
        return self.handler.context.on_request(PATH, "POST", answer.status_code, time.perf_counter() - began)

    async def answer(self, scope: Scope, receive: Receive) -> Response | None:
        """Without a valid token no body is read: the server discards it."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        request = CommitRequest(headers=headers, query=scope["query_string"], address=address_of(scope))
        if refusal := await self.handler.refusal(request):
            if isinstance(refusal, Unauthorized):
                scope["app"].state.wrong_tokens.note(request.address, f"POST {PATH}")
            return await answer_lakehand_error(Request(scope), refusal)
        body = await read(receive, self.most)
        if body is None:
            return None
        if exceeds(body, self.most, MOST_DELIMITERS):
            return too_large(self.most, MOST_DELIMITERS)
        request = replace(request, body=body)
        answer = await self.handler.group_commit.put(request, weight=request.weight)
        if isinstance(answer, LakehandError):
            return await answer_lakehand_error(Request(scope), answer)
        return Response(answer, ACCEPTED, media_type="application/json")


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
        "data": DATA.json_schema(),
    },
    "examples": [EXAMPLE],
}
BATCH: dict[str, Any] = {"type": "array", "items": EVENT, "maxItems": MOST_COMMITS}
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


def answer_of(results: Sequence[CommitResult]) -> bytes:
    """As JSON. On the hot path: made without pydantic."""
    answer = commits_answer(results)
    document = values_of(answer) | {"reasons": [values_of(one) for one in answer.reasons]}
    return json.dumps(document, separators=(",", ":")).encode()


@router.post(PATH, status_code=202, openapi_extra=DESCRIBED)
async def take_commits() -> CommitsAnswer:
    """Take commit events: hints that tables have changed. Sending one twice does no harm."""
    raise NotImplementedError("CommitEvents answers this path, in front of the framework")
