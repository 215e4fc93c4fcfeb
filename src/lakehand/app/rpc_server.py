# SPDX-License-Identifier: Apache-2.0
"""The gRPC server of a service, if its port is set. The library is loaded only then: it takes time and memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from lakehand.app.certificates import Certificates
from lakehand.app.settings import Settings
from lakehand.app.wiring import Service
from lakehand.core.services.table_settings import effective_settings

if TYPE_CHECKING:
    from lakehand.rpc import RpcContext, RpcServer


@contextmanager
def listen_for_rpc(settings: Settings, certificates: Certificates | None = None) -> "Iterator[RpcServer | None]":
    """Take the port first, so that a second start fails at once."""
    if settings.grpc_port is None:
        yield None
        return
    from lakehand.rpc import RpcBounds, RpcServer

    bounds = RpcBounds(max_message=settings.max_body, max_connections=settings.max_connections)
    server = RpcServer(settings.host, settings.grpc_port, bounds, certificates)
    try:
        yield server
    finally:
        server.stop()


def rpc_context(service: Service) -> "RpcContext":
    from lakehand.rpc import RpcContext

    return RpcContext(
        store=service.store,
        tables=service.tables,
        operations=service.operations,
        explainer=service.explainer,
        health=service.health,
        catalogs=service.catalogs,
        fleet=service.fleet,
        alerts=service.alerting.service,
        access=service.access,
        audit=service.audit,
        drains=service.drains,
        requests=service.requests,
        rules=service.intake.rules,
        heartbeat_timeout=service.intake.heartbeat_timeout,
        plugins=service.plugin_reports,
        settings_of=partial(effective_settings, service.plugins),
        readiness=service.readiness,
        about=service.about,
        metrics=service.metrics.rpc,
    )
