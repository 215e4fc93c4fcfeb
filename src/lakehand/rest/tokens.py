# SPDX-License-Identifier: Apache-2.0
"""Routes of who may do what: the caller, tokens, and the audit trail."""

from typing import Annotated

from fastapi import APIRouter

from lakehand.api.access import (
    AuditEntryAnswer,
    AuditQuery,
    CallerAnswer,
    NewTokenAnswer,
    TokenAnswer,
    TokenRequest,
    TokensAnswer,
    audit_answer,
)
from lakehand.api.fields import PageAnswer, answer
from lakehand.domain.access import TokenId
from lakehand.rest.dependencies import Caller, PathId, Services, from_query

router = APIRouter(prefix="/api/v1", tags=["access"])


@router.get("/caller")
def show_caller(caller: Caller) -> CallerAnswer:
    """Who you are to the service."""
    return answer(CallerAnswer, caller)


@router.get("/tokens")
def list_tokens(services: Services, caller: Caller) -> TokensAnswer:
    """All tokens of the database, also revoked and expired ones; those of the settings are not listed."""
    return TokensAnswer(items=[answer(TokenAnswer, token) for token in services.access.list_tokens(caller)])


@router.post("/tokens", status_code=201)
def create_token(new: TokenRequest, services: Services, caller: Caller) -> NewTokenAnswer:
    """Make a token. The answer has its secret, which is shown only now."""
    return services.access.create_token(caller, new)


@router.delete("/tokens/{id}")
def revoke_token(id: PathId, services: Services, caller: Caller) -> TokenAnswer:
    """Revoke a token; other instances refuse it within seconds."""
    return answer(TokenAnswer, services.access.revoke_token(caller, TokenId(id)))


@router.get("/audit")
def list_audit(
    query: Annotated[AuditQuery, from_query(AuditQuery)], services: Services, caller: Caller
) -> PageAnswer[AuditEntryAnswer]:
    """The audit trail, newest first. For operators and admins."""
    page = services.audit.list(caller, query)
    return PageAnswer(items=[audit_answer(entry) for entry in page.items], next=page.next)
