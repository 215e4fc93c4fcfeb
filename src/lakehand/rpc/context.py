# SPDX-License-Identifier: Apache-2.0
"""What the gRPC API is given: services, bounds, and callbacks for metrics. It builds none of it itself."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, Protocol, TypeVar

from lakehand.api.tables import SettingAnswer
from lakehand.core.ports import PluginReport, Store
from lakehand.core.services.access import AccessService
from lakehand.core.services.alerts import AlertService
from lakehand.core.services.catalogs import CatalogService
from lakehand.core.services.explain import Explainer
from lakehand.core.services.fleet import FleetService
from lakehand.core.services.health import HealthService
from lakehand.core.services.operations import OperationService
from lakehand.core.services.requests import Requests
from lakehand.core.services.tables import TableService
from lakehand.domain.access import Caller
from lakehand.domain.tables import Table

P = ParamSpec("P")
T = TypeVar("T")


class RunInThread(Protocol):
    """Runs a function in one of the server's threads: services are synchronous."""

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionInfo:
    """Which service and version this is."""

    version: str
    instance: str = ""
    python: str = ""
    name: str = "lakehand"


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcBounds:
    """How much clients may ask of the server."""

    max_message: int = 64 * 1024  # bytes of one request
    max_requests: int = 1000  # at once, streams included; also the most of one connection
    max_streams: int = 500  # watchers at once
    max_connections: int = 1024
    threads: int = 16  # that work for requests and for all streams together
    pace: float = 1.0  # seconds between two readings for the streams
    recheck: float = 10.0  # seconds after which a stream's token is checked again
    grace: float = 5.0  # seconds for requests in flight when the service ends


class RpcMetrics(Protocol):
    def call(self, rpc: str, code: str, seconds: float | None) -> None:
        """A call has ended; a stream has no seconds."""

    def streams(self, open: int) -> None:
        """So many streams are open now."""


class NoMetrics:
    """The default: nothing is counted."""

    def call(self, rpc: str, code: str, seconds: float | None) -> None: ...

    def streams(self, open: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcContext:
    """What every call can reach."""

    store: Store
    tables: TableService
    operations: OperationService
    catalogs: CatalogService
    fleet: FleetService
    alerts: AlertService
    explainer: Explainer
    health: HealthService
    access: AccessService
    requests: Requests
    plugins: Callable[[], Sequence[PluginReport]]  # as they are now
    settings_of: Callable[[Table], Sequence[SettingAnswer]]
    readiness: Callable[[], Mapping[str, str]]  # part → "ok", or what is wrong with it
    about: VersionInfo
    metrics: RpcMetrics = field(default_factory=NoMetrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call: who asks, and what it can reach."""

    context: RpcContext
    caller: Caller
