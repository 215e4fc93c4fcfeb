# SPDX-License-Identifier: Apache-2.0
"""Routes of tokens: list, create, revoke; and who the caller is."""

from datetime import timedelta

from fastapi import APIRouter
from pydantic import Field
from typing_extensions import Self

from lakehand.domain.access import Role, Token, TokenId
from lakehand.inputs.access import TokenRequest
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import Answer, Moment, PathId, fields_of

router = APIRouter(prefix="/api/v1", tags=["access"])


class CallerAnswer(Answer):
    """Whose token this request has."""

    name: str
    role: Role
    owner: str = Field(description="It may only touch the tables of this owner; empty: of all.")
    address: str


class TokenAnswer(Answer):
    """A token without its secret, which is not stored."""

    id: int
    name: str
    role: Role
    owner: str
    created_by: str
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    used_at: Moment | None = Field(description="When it was last used, within a minute or so.")


class NewTokenAnswer(TokenAnswer):
    secret: str = Field(description="Shown only once.")

    @classmethod
    def made(cls, token: Token, secret: str) -> Self:
        return cls(**fields_of(token), secret=secret)


class TokensAnswer(Answer):
    items: list[TokenAnswer]


@router.get("/caller")
def show_caller(caller: Caller) -> CallerAnswer:
    """Who you are to the service."""
    return CallerAnswer.model_validate(caller)


@router.get("/tokens")
def list_tokens(context: Context, caller: Caller) -> TokensAnswer:
    """All tokens of the database, also revoked and expired ones; those of the settings are not listed."""
    return TokensAnswer.model_validate({"items": context.requests.tokens.list(caller)})


@router.post("/tokens", status_code=201)
def create_token(new: TokenRequest, context: Context, caller: Caller) -> NewTokenAnswer:
    """Make a token. The answer has its secret, which is shown only now."""
    life = None if new.life is None else timedelta(seconds=new.life)
    made = context.requests.tokens.create(caller, new.name, new.role, owner=new.owner, life=life)
    return NewTokenAnswer.made(*made)


@router.delete("/tokens/{id}")
def revoke_token(id: PathId, context: Context, caller: Caller) -> TokenAnswer:
    """Revoke a token; other instances refuse it within seconds."""
    return TokenAnswer.model_validate(context.requests.tokens.revoke(caller, TokenId(id)))
