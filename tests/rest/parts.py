# SPDX-License-Identifier: Apache-2.0
"""What the API under test is given: a real store and real services; only the engine is a stand-in."""

import ssl
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlencode

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.routing import BaseRoute, Route

from lakehand.api.access import NewTokenAnswer, TokenRequest
from lakehand.api.service import VersionAnswer
from lakehand.app.bounded_http import Bounds, Connections, bounded_http
from lakehand.app.tls import HSTS, Certificates, bounded_https
from lakehand.core.intake.commit_events import CommitIntake
from lakehand.core.intake.notifications import Intake
from lakehand.core.loops.alert_sender import Receiver
from lakehand.core.loops.draining import Drain
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import PluginReport
from lakehand.core.rate_limits import RateLimiter
from lakehand.core.services.access import AccessService
from lakehand.core.services.alerts import AlertService
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.core.services.catalogs import CatalogService, ServedCatalog
from lakehand.core.services.drains import DrainService
from lakehand.core.services.explain import Explainer, effective_settings
from lakehand.core.services.fleet import FleetService
from lakehand.core.services.operations import OperationService
from lakehand.core.services.services import Services
from lakehand.core.services.tables import HealthService, TableService
from lakehand.domain.access import Caller, Role
from lakehand.domain.actions import Action
from lakehand.domain.alerts import AlertChanges, AlertId, AlertKind, AlertRules, Cause
from lakehand.domain.locations import Warehouses
from lakehand.domain.operations import InstanceId
from lakehand.domain.processes import Json
from lakehand.domain.tables import Catalog, TableReference
from lakehand.formats.hudi.notifications import HudiNotifications
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.rest import ApiContext, Security, build_app
from lakehand.rest.refusals import Refusals
from lakehand.spi import (
    EngineContext,
    EngineHealth,
    EngineStatus,
    ExecuteEngine,
    Finding,
    Format,
    Handle,
    LeaseGrant,
    ProcessFactory,
    Skip,
    TableFormat,
    TableProcess,
    TableRuntime,
    TableSnapshot,
    Verdict,
    Work,
)
from lakehand.store import SqlStore
from lakehand.web import PageContext, build_pages
from tests.kit.quick_server import QuickServer, in_thread
from tests.kit.service import TLS

HUDI = Format("hudi")
ACTIONS = frozenset(Action.register(name) for name in ("compaction", "clustering", "clean"))
LOCATION = "/data/trips"
ROOT = Caller(name="root", role=Role.ADMIN)
INSTANT = "20261114191013982"
PATIENT = 25.0  # seconds: no test of what is stored depends on how busy the machine is


class NothingToDo(ProcessFactory):
    name = "hudi"

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {HUDI: ACTIONS}

    def dry_run_actions(self) -> frozenset[Action]:
        return frozenset({Action("clean")})

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        return Skip(reason="nothing to do")

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        return Verdict(finding=Finding.DONE, reason="done")


class UnreadableFolder(TableFormat):
    format = HUDI

    def probe(self, reference: TableReference) -> str:
        return "same"

    def inspect(self, reference: TableReference) -> TableSnapshot:
        raise NotImplementedError


class Listed(UnreadableFolder):
    """A format with a catalog whose tables a test names; what is not a list of names cannot be read."""

    format = Format("listed")

    def __init__(self, names: list[str] | None = None) -> None:
        self.names = names

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        if self.names is None:
            raise OSError(f"cannot reach {catalog.properties['uri']}")
        for name in self.names:
            yield TableReference(location=f"/data/{name}", catalog=catalog, db_name="db", table_name=name)


class LoggedEngine(ExecuteEngine):
    """Runs nothing and has a log for every handle."""

    name: ClassVar[str] = "spark"
    capacity = 1

    def open(self, properties: Mapping[str, str], context: EngineContext) -> None: ...
    def close(self) -> None: ...
    def heartbeat_token(self) -> str | None:
        return None

    def submit(self, work: Work, handle: Handle, grant: LeaseGrant) -> None: ...
    def renew(self, handles: Collection[Handle], grant: LeaseGrant) -> None: ...
    def status(self, handles: Collection[Handle]) -> Mapping[Handle, EngineStatus]:
        return {}

    def cancel(self, handle: Handle) -> None: ...
    def logs(self, handle: Handle, *, offset: int = 0, limit: int = 65536) -> str:
        return f"log of {handle}\n".encode()[offset : offset + limit].decode()

    def health(self) -> EngineHealth:
        return EngineHealth(is_up=True, detail="idle")


def plugins(listed: Listed | None = None) -> Plugins:
    factory = NothingToDo()
    reader = listed or Listed([])
    return Plugins(
        formats={HUDI: UnreadableFolder(), reader.format: reader},
        factories={(name, action): factory for name in (HUDI, reader.format) for action in ACTIONS},
        engines={"spark": LoggedEngine()},
        reports=(
            PluginReport(kind="engine", name="spark", distribution="lakehand", version="0", state="on"),
            PluginReport(kind="engine", name="odd", distribution="odd", version="0", state="broken", reason="no Java"),
        ),
    )


def context_over(
    store: SqlStore,
    *,
    security: Security | None = None,
    per_minute: int = 1000,
    listed: Listed | None = None,
    tokens: Mapping[str, str] | None = None,
) -> ApiContext:
    on, warehouses = plugins(listed), Warehouses(prefixes=("/data", "s3://lake"))
    metrics = PrometheusMetrics()
    audit = AuditTrail(store=store)
    tables = TableService(
        store=store,
        audit=audit,
        plugins=on,
        warehouses=warehouses,
        wake=silent,
        recognise=recognise,
        first_actions={HUDI: frozenset({Action("compaction")})},
    )
    lake = Catalog(name="lake", format=Listed.format, type="rest", properties={"uri": "https://ann:hush@lake"})
    served = {"lake": ServedCatalog(catalog=lake, owner="ann")}
    operations = OperationService(
        store=store, plugins=on, tables=tables, rules=HudiNotifications(), audit=audit, wake=silent
    )  # fmt: skip
    intake = Intake(
        store=store, warehouses=warehouses, heartbeat_timeout=timedelta(minutes=10), wake=silent,
        rules=HudiNotifications(),
        rate_limiter=RateLimiter(per_minute=per_minute),
    )  # fmt: skip
    services = Services(
        about=VersionAnswer(version="0.1.0", instance="here", python="3"),
        tables=tables,
        operations=operations,
        alerts=AlertService(store=store, audit=audit),
        catalogs=CatalogService(store=store, audit=audit, plugins=on, tables=tables, catalogs=served),
        fleet=FleetService(store=store),
        explainer=Explainer(store=store, plugins=on, waits=lambda *_: {}),
        health=HealthService(store=store),
        access=AccessService(store=store, audit=audit, tokens=tokens or {}),
        audit=audit,
        drains=DrainService(store=store, audit=audit, drain=Drain(), holder=InstanceId("here")),
        events=store.events,
        instances=store.instances,
        clock=store.clock,
        plugins=on.listing,
        settings_of=partial(effective_settings, on),
        readiness=lambda: {"database": "ok"},
    )
    return ApiContext(
        services=services,
        intake=intake,
        commits=CommitIntake(
            intake=intake, plugins=on, catalogs=served, sync_catalogs=silent, on_results=metrics.notifications
        ),
        metrics_text=metrics.text,
        security=security or Security(),
        on_request=metrics.request,
        on_notifications=metrics.notifications,
        refusals=Refusals(metrics.refusal),
        wire_timeout=PATIENT,
        commits_timeout=PATIENT,
    )


@contextmanager
def serving(
    context: ApiContext,
    bounds: Bounds | None = None,
    pages: PageContext | None = None,
    *,
    certificates: Certificates | None = None,
    trust: ssl.SSLContext = TLS,
) -> Iterator[httpx.Client]:
    """The app on a real server with a free port, and a client of it."""
    http = bounded_http(Connections(bounds or Bounds(), context.refusals))
    config = uvicorn.Config(
        app_over(context, pages), port=0, loop="uvloop", ws="none", access_log=False, log_config=None,
        http=bounded_https(http, certificates) if certificates else http,
        headers=[HSTS] if certificates else [],
    )  # fmt: skip
    scheme, headers = "https" if certificates else "http", {"Content-Type": "application/json"}
    with (
        in_thread(QuickServer(config)) as port,
        httpx.Client(base_url=f"{scheme}://127.0.0.1:{port}", headers=headers, timeout=30, verify=trust) as client,
    ):
        yield client


ROUTERS: dict[int, BaseRoute] = {}


def app_over(context: ApiContext, pages: PageContext | None = None) -> FastAPI:
    """The app, with the routers of the one before: what they accept is worked out at the first request, and slowly."""
    app = build_app(context, build_pages(pages) if pages else None)
    routes = app.router.routes
    routes[:] = [one if isinstance(one, Route) else ROUTERS.setdefault(at, one) for at, one in enumerate(routes)]
    return app


def with_security(context: ApiContext, *, tokens: Mapping[str, str] | None = None, **security: Any) -> ApiContext:
    """The context with tokens of the settings, and with secrets of writers."""
    access = replace(context.services.access, tokens=tokens or {})
    return with_services(replace(context, security=Security(**security)), access=access)


def with_services(context: ApiContext, **changed: Any) -> ApiContext:
    return replace(context, services=replace(context.services, **changed))


def with_engines(context: ApiContext, *names: str) -> ApiContext:
    """The context with these engines switched on, besides those that are known to be broken."""
    operations = context.services.operations
    known = operations.plugins
    on = tuple(
        PluginReport(kind="engine", name=name, distribution="lakehand", version="0", state="on") for name in names
    )
    broken = tuple(report for report in known.reports if report.state == "broken")
    changed = replace(known, engines={name: LoggedEngine() for name in names}, reports=(*on, *broken))
    return with_services(context, operations=replace(operations, plugins=changed), plugins=changed.listing)


def with_receivers(context: ApiContext, receivers: Mapping[str, Receiver], test_timeout: float = 15.0) -> ApiContext:
    alerts = replace(context.services.alerts, receivers=receivers, test_timeout=test_timeout)
    return with_services(context, alerts=alerts)


def made_token(context: ApiContext, name: str, role: Role, owner: str = "") -> NewTokenAnswer:
    return context.services.access.create_token(ROOT, TokenRequest(name=name, role=role, owner=owner))


def recognise(location: str) -> Format | None:
    if location.endswith("/unknown"):
        return None
    return Listed.format if location.endswith("/listed") else HUDI


def silent() -> None:
    """Wakes nobody: no loop runs here."""


def wire(kind: str = "compact", **changes: str) -> str:
    """The address of a request as Hudi's client writes it."""
    query = {
        "execution_engine": "spark", "extra_params": "", "db_name": "", "resource": "spark:4g,4g",
        "basepath": LOCATION, "parallelism": "100", "action": "REQUEST", "table_name": "trips", "queue": "default",
        "instant": INSTANT, "username": "default",
    }  # fmt: skip
    return f"/v1/hoodie/service/{kind}?{urlencode(query | changes)}"


def items(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def kinds(client: httpx.Client) -> set[str]:
    return {event["kind"] for event in items(client, "/api/v1/events")}


def add_table(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    answer = client.post("/api/v1/tables", json={"location": LOCATION, "action_types": ["compaction"], **changes})
    assert answer.status_code in (200, 201), answer.text
    table: dict[str, Any] = answer.json()
    return table


def open_alert(store: SqlStore, key: str = "failed:1", kind: AlertKind = AlertKind.OPERATION_FAILED) -> AlertId:
    now = store.clock.now()
    cause = Cause(key=key, kind=kind, title=f"{key} failed", message="no space", owner="ann")
    store.alerts.change(AlertChanges(open=[cause]), AlertRules(), read_at=now, now=now)
    return store.alerts.open_alerts()[-1].id


def add_operation(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    wanted = {"location": LOCATION, "action": "compaction", "instant": INSTANT, **changes}
    answer = client.post("/api/v1/operations", json=wanted)
    assert answer.status_code in (200, 201), answer.text
    operation: dict[str, Any] = answer.json()
    return operation
