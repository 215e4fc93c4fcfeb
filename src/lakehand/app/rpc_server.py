# SPDX-License-Identifier: Apache-2.0
"""The gRPC server of a service, if its port is set. The library is loaded only then: it takes time and memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakehand.app.certificates import Certificates
from lakehand.app.settings import Settings
from lakehand.app.wiring import Service

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
        services=service.services, store=service.store, rules=service.intake.rules,
        heartbeat_timeout=service.intake.heartbeat_timeout, metrics=service.metrics.rpc,
    )  # fmt: skip
