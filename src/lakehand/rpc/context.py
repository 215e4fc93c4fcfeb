# SPDX-License-Identifier: Apache-2.0
"""What the gRPC API is given: services, bounds, and callbacks for metrics. It builds none of it itself."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ParamSpec, Protocol, TypeVar

from lakehand.core.ports import Store
from lakehand.core.services.services import Services
from lakehand.domain.access import Caller

P = ParamSpec("P")
T = TypeVar("T")


class RunInThread(Protocol):
    """Runs a function in one of the server's threads: services are synchronous."""

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


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

    services: Services
    store: Store  # which the streams follow
    metrics: RpcMetrics = field(default_factory=NoMetrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call: who asks, and what it can reach."""

    context: RpcContext
    caller: Caller

    @property
    def services(self) -> Services:
        return self.context.services
