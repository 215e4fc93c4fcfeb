# SPDX-License-Identifier: Apache-2.0
"""Calls about the fleet, alerts, catalogs, access and the service itself; and any request, for what has no call yet."""

from datetime import timedelta
from typing import Any, Literal, cast

from lakehand.api.access import AuditQuery, TokenRequest, TokensAnswer
from lakehand.api.alerts import AlertQuery, SilenceRequest, TestRequest, TestsAnswer
from lakehand.api.catalogs import CatalogsAnswer, SyncRequest
from lakehand.api.fields import PageAnswer, values_of
from lakehand.api.service import DrainRequest, InstancesAnswer, PluginsAnswer
from lakehand.client import Parameters
from lakehand.client.answers import (
    Alert,
    AuditEntry,
    Caller,
    Catalog,
    CatalogSync,
    Drain,
    Fleet,
    Instance,
    NewToken,
    Plugin,
    ReceiverTest,
    Token,
    Version,
)
from lakehand.client.operation_calls import OperationRef, id_of
from lakehand.client.steps import ItemSteps, Request, Steps, get, post, send, send_for_pages
from lakehand.client.table_calls import TableRef, table_id
from lakehand.domain.access import Role

ALERTS, CATALOGS, DRAIN = "/api/v1/alerts", "/api/v1/catalogs", "/api/v1/drain"
ANYTHING: Any = object
TOKENS = "/api/v1/tokens"


def show_fleet(*, hours: int | None = None, limit: int | None = None) -> Steps[Fleet]:
    """How many tables are healthy, what needs a person (at most ``limit``), and what was done in the last ``hours``."""
    return send(get("/api/v1/fleet", Fleet, {"hours": hours, "limit": limit}))


def list_alerts(*, state: Literal["open", "all"] = "open", limit: int | None = None) -> ItemSteps[Alert]:
    """Alerts, newest first; only open ones unless ``state`` is all."""
    return send_for_pages(ALERTS, PageAnswer[Alert], AlertQuery(state=state).filters(), limit)


def silence_alert(alert: int | Alert, duration: float | timedelta) -> Steps[Alert]:
    """Send no reminder of it for a while; ``duration`` in seconds."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    number = alert if isinstance(alert, int) else alert.id
    request = SilenceRequest(duration=seconds)
    return send(post(f"{ALERTS}/{{id}}/silence", Alert, values_of(request), id=number))


def send_test(receiver: str | None = None) -> Steps[list[ReceiverTest]]:
    """Send a test message to one receiver or to all, and wait a few seconds for the outcome."""
    request = TestRequest(receiver=receiver)
    return (yield from send(post(f"{ALERTS}/test", TestsAnswer, values_of(request)))).items


def list_catalogs() -> Steps[list[Catalog]]:
    """The catalogs of the settings, and what the last sync of each changed."""
    return (yield from send(get(CATALOGS, CatalogsAnswer))).items


def sync_catalog(name: str, *, dry_run: bool = False, accept_empty: bool = False) -> Steps[CatalogSync]:
    """Register its new tables and retire those that were dropped, now."""
    request = SyncRequest(dry_run=dry_run, accept_empty=accept_empty)
    return send(post(f"{CATALOGS}/{{name}}/sync", CatalogSync, values_of(request), name=name))


def list_plugins() -> Steps[list[Plugin]]:
    """Every plugin that was found: its strategies, and its state in the instance that answers."""
    return (yield from send(get("/api/v1/plugins", PluginsAnswer))).items


def list_instances() -> Steps[list[Instance]]:
    """The service processes that share the database."""
    return (yield from send(get("/api/v1/instances", InstancesAnswer))).items


def show_drain() -> Steps[Drain]:
    """Whether the instance that answers takes on work, and what it holds."""
    return send(get(DRAIN, Drain))


def begin_drain(*, timeout: float | timedelta | None = None) -> Steps[Drain]:
    """The instance that answers claims nothing new; after ``timeout`` (seconds) its running work is stopped, too."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    return send(post(DRAIN, Drain, values_of(DrainRequest(timeout=seconds))))


def end_drain() -> Steps[Drain]:
    """The instance that answers takes on work again."""
    return send(Request(method="DELETE", route=DRAIN, answer=Drain, is_repeatable=True))


def show_version() -> Steps[Version]:
    """Which service answers, and its version. Needs no token."""
    return send(get("/api/v1/version", Version))


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


def request(
    method: str, path: str, *, parameters: Parameters | None = None, body: Parameters | None = None
) -> Steps[Any]:
    """Any request of the API; the answer as plain JSON. For routes that this client does not know."""
    parameters, is_safe = parameters or {}, method == "GET"
    return send(
        Request(method=method, route=path, answer=ANYTHING, parameters=parameters, body=body, is_repeatable=is_safe)
    )
