# SPDX-License-Identifier: Apache-2.0
"""What the gRPC API under test is given, and a client of it: the services of the REST tests over a real server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status

from lakehand.core.feed import ChangeFeed
from lakehand.rest import ApiContext
from lakehand.rpc import CertificateSource, RpcBounds, RpcContext, RpcMetrics, RpcServer
from lakehand.rpc.context import NoMetrics
from lakehand.rpc.generated import (
    access_pb2_grpc,
    alerts_pb2_grpc,
    catalogs_pb2_grpc,
    events_pb2_grpc,
    fleet_pb2_grpc,
    operations_pb2_grpc,
    service_pb2_grpc,
    tables_pb2_grpc,
    writers_pb2_grpc,
)
from lakehand.rpc.methods import METHODS, Method

TIMEOUT = 30.0  # seconds
QUICK = RpcBounds(grace=2.0)
Metadata = tuple[tuple[str, str], ...]


def rpc_context(api: ApiContext, metrics: RpcMetrics | None = None) -> RpcContext:
    """The same services as the REST API has."""
    store = api.services.access.store
    feed = ChangeFeed(store=store, pace=0.02)
    return RpcContext(
        services=api.services, store=store, commits=api.commits, feed=feed, metrics=metrics or NoMetrics()
    )


@dataclass(frozen=True)
class RpcClient:
    """The generated client."""

    channel: grpc.Channel
    server: RpcServer

    @property
    def tables(self) -> tables_pb2_grpc.TablesStub:
        return tables_pb2_grpc.TablesStub(self.channel)

    @property
    def operations(self) -> operations_pb2_grpc.OperationsStub:
        return operations_pb2_grpc.OperationsStub(self.channel)

    @property
    def events(self) -> events_pb2_grpc.EventsStub:
        return events_pb2_grpc.EventsStub(self.channel)

    @property
    def access(self) -> access_pb2_grpc.AccessStub:
        return access_pb2_grpc.AccessStub(self.channel)

    @property
    def service(self) -> service_pb2_grpc.ServiceStub:
        return service_pb2_grpc.ServiceStub(self.channel)

    def call(self, method: Method, request: Message, metadata: Metadata = ()) -> Any:
        """The answer of any rpc; of a stream, its first message."""
        stub: Any = getattr(STUBS[method.name.partition(".")[0]](self.channel), method.name.partition(".")[2])
        if not method.streams:
            return stub(request, metadata=metadata, timeout=TIMEOUT)
        stream = stub(request, metadata=metadata, timeout=TIMEOUT)
        stream.initial_metadata()
        if method.name == "Events.WatchEvents" and not stream.done():
            return stream.cancel()
        first = next(stream)
        stream.cancel()
        return first


STUBS: dict[str, Any] = {
    "Tables": tables_pb2_grpc.TablesStub,
    "Operations": operations_pb2_grpc.OperationsStub,
    "Writers": writers_pb2_grpc.WritersStub,
    "Catalogs": catalogs_pb2_grpc.CatalogsStub,
    "Alerts": alerts_pb2_grpc.AlertsStub,
    "Events": events_pb2_grpc.EventsStub,
    "Fleet": fleet_pb2_grpc.FleetStub,
    "Access": access_pb2_grpc.AccessStub,
    "Service": service_pb2_grpc.ServiceStub,
}
BY_NAME = {method.name: method for method in METHODS.values()}


@contextmanager
def rpc_serving(
    context: RpcContext, bounds: RpcBounds = QUICK, certificates: CertificateSource | None = None
) -> Iterator[RpcClient]:
    server = RpcServer("127.0.0.1", 0, bounds, certificates)
    server.start(context)
    try:
        with grpc.insecure_channel(server.address) as channel:
            yield RpcClient(channel, server)
    finally:
        server.stop()
        context.feed.close(timeout=10)


def bearer(secret: str) -> Metadata:
    return (("authorization", f"Bearer {secret}"),)


def failure_of(error: Any) -> tuple[grpc.StatusCode, str]:
    """The status, and our code from its details; empty without details."""
    status = rpc_status.from_call(error)
    info = ErrorInfo()
    if status is None or not any(detail.Unpack(info) for detail in status.details):
        return error.code(), ""
    assert info.domain == "lakehand"
    assert info.reason == info.metadata["code"].upper().replace("-", "_")
    return error.code(), info.metadata["code"]
