# SPDX-License-Identifier: Apache-2.0
"""Answers requests with commit events. Plain ASGI, in front of the framework, to be as fast as the Hudi wire."""

import time
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lakehand.domain.errors import LakehandError, Unauthorized
from lakehand.rest.access import address_of
from lakehand.rest.bodies import exceeds, read, too_large
from lakehand.rest.commits.handler import CommitHandler, CommitRequest
from lakehand.rest.commits.route import PATH
from lakehand.rest.errors import answer_lakehand_error

MOST_DELIMITERS = 100_000  # a thousand events have less than half of that
ACCEPTED = 202


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
