# SPDX-License-Identifier: Apache-2.0
"""Calls about tokens and the audit trail."""

from datetime import timedelta
from typing import cast

from lakehand.api.access import AuditQuery, TokenRequest, TokensAnswer
from lakehand.api.fields import PageAnswer, values_of
from lakehand.client.groups import Call, Group, Listing, R
from lakehand.client.names import AuditEntry, Caller, NewToken, Token
from lakehand.client.operation_calls import OperationRef, id_of
from lakehand.client.steps import ItemSteps, Request, Steps, get, post, send, send_for_pages
from lakehand.client.table_calls import TableRef, table_id
from lakehand.domain.access import Role

TOKENS = "/api/v1/tokens"


def show_caller() -> Steps[Caller]:
    """Who you are to the service."""
    return send(get("/api/v1/caller", Caller))


def list_tokens() -> Steps[list[Token]]:
    """All tokens of the database, also revoked and expired ones."""
    return (yield from send(get(TOKENS, TokensAnswer))).items


def create_token(name: str, role: str, *, owner: str = "", life: float | timedelta | None = None) -> Steps[NewToken]:
    """Make a token. The answer has its secret, which is shown only now. ``life`` in seconds; None: without an end."""
    seconds = life.total_seconds() if isinstance(life, timedelta) else life
    request = TokenRequest(name=name, role=cast(Role, role), owner=owner, life=seconds)
    return send(post(TOKENS, NewToken, values_of(request)))


def revoke_token(token: int | Token) -> Steps[Token]:
    """Revoke a token; other instances refuse it within seconds."""
    number = token if isinstance(token, int) else token.id
    return send(Request(method="DELETE", route=f"{TOKENS}/{{id}}", answer=Token, values={"id": number}))


def list_audit(
    *,
    limit: int | None = None,
    caller: str | None = None,
    action: str | None = None,
    table: TableRef | None = None,
    operation: OperationRef | None = None,
) -> ItemSteps[AuditEntry]:
    """Who asked for what, newest first. ``action`` is a whole action, or a prefix that ends in a dot."""
    about = None if table is None else (yield from table_id(table))
    work = None if operation is None else id_of(operation)
    query = AuditQuery(caller=caller, action=action, table=about, operation=work)
    yield from send_for_pages("/api/v1/audit", PageAnswer[AuditEntry], query.filters(), limit)


class Tokens(Group[R]):
    list = Call(list_tokens)
    create = Call(create_token)
    revoke = Call(revoke_token)


class Audit(Group[R]):
    list = Listing(list_audit)
