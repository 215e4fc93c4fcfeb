# SPDX-License-Identifier: Apache-2.0
"""Who asks, and what they reach: the parts of a request that every route shares."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import Scope

from lakehand.core.operation_service import OperationService
from lakehand.core.table_service import TableService
from lakehand.domain.errors import Unauthorized
from lakehand.rest.faces import Faces

NOBODY = "anonymous"
bearer = HTTPBearer(auto_error=False, description="Needed when the service has tokens configured.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


async def faces_of(request: Request) -> Faces:
    faces = request.app.state.faces
    assert isinstance(faces, Faces)
    return faces


FacesHere = Annotated[Faces, Depends(faces_of)]


async def caller_of(request: Request, faces: FacesHere, credentials: Credentials) -> str:
    """The name of the token that the request carries; raises where one is needed and missing."""
    if not faces.security.api_tokens:
        return NOBODY
    name = token_name(faces, credentials)
    if name is None:
        raise refused(request, "send a valid token: Authorization: Bearer TOKEN")
    return name


def token_name(faces: Faces, credentials: HTTPAuthorizationCredentials | None) -> str | None:
    return faces.security.api_caller(credentials.credentials if credentials else "")


def refused(request: Request, message: str) -> Unauthorized:
    route = str(getattr(request.scope.get("route"), "path", "unmatched"))
    request.app.state.wrong_tokens.note(address_of(request.scope), f"{request.method} {route}")
    return Unauthorized(message)


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


async def writer_of(request: Request, faces: FacesHere, credentials: Credentials) -> str:
    """As ``caller_of``, for writers: the token of the Hudi wire opens this door too."""
    security = faces.security
    if security.wire_token and security.admits_wire(request.query_params.get("token", "")):
        return "writer"
    if not security.api_tokens and security.wire_token:
        raise refused(request, "send the writers' token: ?token=TOKEN")
    return await caller_of(request, faces, credentials)


async def tables_of(faces: FacesHere) -> TableService:
    return faces.tables


async def operations_of(faces: FacesHere) -> OperationService:
    return faces.operations


Caller = Annotated[str, Depends(caller_of)]
Writer = Annotated[str, Depends(writer_of)]
Tables = Annotated[TableService, Depends(tables_of)]
Operations = Annotated[OperationService, Depends(operations_of)]
