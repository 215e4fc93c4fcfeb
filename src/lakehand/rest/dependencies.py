# SPDX-License-Identifier: Apache-2.0
"""Dependencies of the routes: the API context, the caller with its role, an id, a query as a dataclass of the API."""

from collections.abc import Callable, Coroutine
from dataclasses import MISSING, fields
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import Depends, Path, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import Field, create_model
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from lakehand.core.services.services import Services as AllServices
from lakehand.domain.access import Caller as ApiCaller
from lakehand.domain.access import Role
from lakehand.domain.errors import Unauthorized
from lakehand.domain.texts import LARGEST_ID
from lakehand.rest.context import ApiContext

bearer = HTTPBearer(auto_error=False, description="Needed when the service has tokens.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
T = TypeVar("T")
VIA = "rest"
PathId = Annotated[int, Path(ge=1, le=LARGEST_ID)]


async def context_of(request: Request) -> ApiContext:
    context = request.app.state.context
    assert isinstance(context, ApiContext)
    return context


async def services_of(request: Request) -> AllServices:
    return (await context_of(request)).services


Context = Annotated[ApiContext, Depends(context_of)]
Services = Annotated[AllServices, Depends(services_of)]


async def caller_of(request: Request, context: Context, credentials: Credentials) -> ApiCaller:
    """Who sends the request; raises if a valid token is required and missing."""
    secret, address = secret_of(credentials), address_of(request.scope)
    caller = await run_in_threadpool(context.services.access.caller, secret, address=address, via=VIA)
    if caller is None:
        raise refused(request, "the request has no valid token: send Authorization: Bearer TOKEN")
    return caller


def secret_of(credentials: HTTPAuthorizationCredentials | None) -> str:
    return credentials.credentials if credentials else ""


def refused(request: Request, message: str) -> Unauthorized:
    route = str(getattr(request.scope.get("route"), "path", "unmatched"))
    request.app.state.wrong_tokens.note(address_of(request.scope), f"{request.method} {route}")
    return Unauthorized(message)


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


async def writer_of(request: Request, context: Context, credentials: Credentials) -> ApiCaller:
    """As ``caller_of``, for writers: the token of the Hudi wire is accepted, too."""
    security = context.security
    if security.wire_token and security.admits_wire(request.query_params.get("token", "")):
        return ApiCaller(name="writer", role=Role.OPERATOR, address=address_of(request.scope), via=VIA)
    is_guarded = bool(security.wire_token)
    if is_guarded and await run_in_threadpool(is_open, context):
        raise refused(request, "the request has no valid token: send the writers' token as ?token=TOKEN")
    return await caller_of(request, context, credentials)


def is_open(context: ApiContext) -> bool:
    return context.services.access.is_open


Caller = Annotated[ApiCaller, Depends(caller_of)]
Writer = Annotated[ApiCaller, Depends(writer_of)]


def from_query(shape: Callable[..., T]) -> Any:
    """A ``shape`` from the parameters of the URL: FastAPI takes a dataclass as a body, but not as a query."""
    wanted: Any = shape
    hints = get_type_hints(wanted, include_extras=True)
    own: dict[str, Any] = {
        one.name: (hints[one.name], Field(... if one.default is MISSING else one.default, **one.metadata))
        for one in fields(wanted)
    }
    return Depends(reader(shape, create_model(wanted.__name__, **own)))


def reader(shape: Callable[..., T], model: Any) -> Callable[..., Coroutine[Any, Any, T]]:
    async def read(query: Annotated[model, Query()]) -> T:
        return shape(**{name: getattr(query, name) for name in model.model_fields})

    return read
