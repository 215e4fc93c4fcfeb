# SPDX-License-Identifier: Apache-2.0
"""Calls about tokens and the audit trail."""

from datetime import timedelta

from lakehand.api.fields import PageAnswer
from lakehand.client.access_answers import AuditEntry, Caller, NewToken, Token
from lakehand.client.answers import ItemList
from lakehand.client.documents import Document
from lakehand.client.operation_calls import OperationRef, id_of
from lakehand.client.steps import ItemSteps, Request, Steps, get, post, send, send_for_pages
from lakehand.client.table_calls import TableRef, table_id

TOKENS = "/api/v1/tokens"


def show_caller() -> Steps[Caller]:
    """Who you are to the service."""
    return send(get("/api/v1/caller", Caller))


def list_tokens() -> Steps[list[Token]]:
    """All tokens of the database, also revoked and expired ones."""
    return (yield from send(get(TOKENS, ItemList[Token]))).items


def create_token(name: str, role: str, *, owner: str = "", life: float | timedelta | None = None) -> Steps[NewToken]:
    """Make a token. The answer has its secret, which is shown only now. ``life`` in seconds; None: without an end."""
    seconds = life.total_seconds() if isinstance(life, timedelta) else life
    return send(post(TOKENS, NewToken, {"name": name, "role": role, "owner": owner, "life": seconds}))


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
    filters: Document = {"caller": caller, "action": action}
    filters |= {"table": None if table is None else (yield from table_id(table))}
    filters |= {"operation": None if operation is None else id_of(operation)}
    yield from send_for_pages("/api/v1/audit", PageAnswer[AuditEntry], filters, limit)
