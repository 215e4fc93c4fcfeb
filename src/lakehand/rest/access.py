# SPDX-License-Identifier: Apache-2.0
"""Dependencies of the routes: the API context, and the name of the caller."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import Scope

from lakehand.domain.errors import Unauthorized
from lakehand.rest.context import ApiContext

ANONYMOUS = "anonymous"
bearer = HTTPBearer(auto_error=False, description="Needed when the service has tokens configured.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


async def context_of(request: Request) -> ApiContext:
    context = request.app.state.context
    assert isinstance(context, ApiContext)
    return context


Context = Annotated[ApiContext, Depends(context_of)]


async def caller_of(request: Request, context: Context, credentials: Credentials) -> str:
    """The name of the request's token; raises if a valid one is required and missing."""
    if not context.security.api_tokens:
        return ANONYMOUS
    if (name := token_name(context, credentials)) is None:
        raise refused(request, "the request has no valid token: send Authorization: Bearer TOKEN")
    return name


def token_name(context: ApiContext, credentials: HTTPAuthorizationCredentials | None) -> str | None:
    return context.security.api_caller(credentials.credentials if credentials else "")


def refused(request: Request, message: str) -> Unauthorized:
    route = str(getattr(request.scope.get("route"), "path", "unmatched"))
    request.app.state.wrong_tokens.note(address_of(request.scope), f"{request.method} {route}")
    return Unauthorized(message)


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


async def writer_of(request: Request, context: Context, credentials: Credentials) -> str:
    """As ``caller_of``, for writers: the token of the Hudi wire is accepted, too."""
    security = context.security
    if security.wire_token and security.admits_wire(request.query_params.get("token", "")):
        return "writer"
    if not security.api_tokens and security.wire_token:
        raise refused(request, "the request has no valid token: send the writers' token as ?token=TOKEN")
    return await caller_of(request, context, credentials)


Caller = Annotated[str, Depends(caller_of)]
Writer = Annotated[str, Depends(writer_of)]
