# SPDX-License-Identifier: Apache-2.0
"""The gRPC server: an event loop in a thread of its own, so that a stream costs no thread.

New connections get the certificate that is current when they are made. Beside our calls it has what every gRPC server
has, without a token, and without a word of tables: health (SERVING while the service is ready), and reflection, which
tells clients without our .proto files which calls there are.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, TypeVar

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from lakehand.core.services.readiness import OK, ReadinessCheck
from lakehand.core.services.wrong_tokens import WrongTokens
from lakehand.domain.errors import Invalid, Unavailable
from lakehand.rpc.calls import Calls, read_message, secret_of
from lakehand.rpc.context import RpcBounds, RpcContext
from lakehand.rpc.errors import status_of
from lakehand.rpc.feed import ChangeFeed
from lakehand.rpc.methods import METHODS, SERVICES

T = TypeVar("T")
MINUTE = 60_000  # milliseconds
LONGEST_METADATA = 16 * 1024  # bytes: tokens of identity providers are long
Details = grpc.HandlerCallDetails
Continuation = Callable[[Details], Awaitable[Any]]
Request, Status = health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse
ServicerContext: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
PACE = 2.0  # seconds between two checks for somebody who watches
MOST_CALLS = 50  # at once: whoever has no token cannot take them from those who have
NAMES = frozenset({"", *SERVICES})
MOST_STREAMS = 50
HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


class CertificateSource(Protocol):
    """Whoever keeps the certificate of the service."""

    @property
    def version(self) -> object:
        """Differs when the certificate was replaced."""

    def pem(self) -> tuple[bytes, bytes]:
        """The private key, and the chain of certificates."""


def credentials_of(certificates: CertificateSource) -> grpc.ServerCredentials:
    used = certificates.version

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """Called for every new connection; None keeps the present certificate."""
        nonlocal used
        version = certificates.version
        if version == used:
            return None
        config = configuration(certificates)
        used = version
        return config

    return grpc.dynamic_ssl_server_credentials(configuration(certificates), fetch)  # type: ignore[arg-type]


def configuration(certificates: CertificateSource) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([certificates.pem()])


class Gate(grpc.aio.ServerInterceptor):
    """Gives our calls to ``calls``; health and reflection go on as they are."""

    calls: Calls | None = None

    async def intercept_service(self, continuation: Continuation, handler_call_details: Details) -> Any:
        method = METHODS.get(handler_call_details.method)
        if method is None or self.calls is None:
            return await continuation(handler_call_details)
        return await self.calls.handler(method, secret_of(handler_call_details.invocation_metadata))


class RpcServer:
    """Takes its port when it is made, and answers when it is started."""

    def __init__(
        self, host: str, port: int, bounds: RpcBounds | None = None, certificates: CertificateSource | None = None
    ) -> None:
        self.bounds = bounds or RpcBounds()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="grpc", daemon=True)
        self._thread.start()
        self._gate = Gate()
        self._stopping: asyncio.Task[None] | None = None
        self.where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self.port = self._wait_for(self._bind(certificates))
        except BaseException:
            self._end_loop()
            raise
        self.address = address(host, self.port)

    def start(self, context: RpcContext) -> None:
        self._wait_for(self._start(context))

    def begin_stop(self) -> None:
        """Take no more calls, and let streams end. Returns at once."""
        self._loop.call_soon_threadsafe(self._stop_soon)

    def stop(self) -> None:
        """Returns when all calls have ended or were cut off after the grace. May be called again."""
        if self._loop.is_closed():
            return
        self._wait_for(self._stopped())
        self._end_loop()

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _bind(self, certificates: CertificateSource | None) -> int:
        self._server = grpc.aio.server(interceptors=[self._gate], options=options(self.bounds))
        try:
            if certificates is None:
                return self._server.add_insecure_port(self.where)
            return self._server.add_secure_port(self.where, credentials_of(certificates))
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {self.where} for gRPC: choose another grpc_port or host") from error

    async def _start(self, context: RpcContext) -> None:
        self._threads = ThreadPoolExecutor(self.bounds.threads, thread_name_prefix="grpc")
        self._readiness = ReadinessCheck(context.services.readiness)
        self._health = Health(self._readiness)
        self._calls = Calls(
            context=context, bounds=self.bounds, threads=self._threads,
            feed=ChangeFeed(store=context.store, run=self._run, pace=self.bounds.pace),
            wrong_tokens=WrongTokens(context.store.events, context.store.clock.now),
        )  # fmt: skip
        self._server.add_generic_rpc_handlers((self._health.handlers(),))
        add_reflection(self._server)
        self._gate.calls = self._calls
        await self._server.start()

    def _run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> "asyncio.Future[T]":
        return self._calls.run(function, *args, **kwargs)

    def _stop_soon(self) -> None:
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._stop())

    async def _stopped(self) -> None:
        self._stop_soon()
        assert self._stopping is not None
        await self._stopping

    async def _stop(self) -> None:
        if self._gate.calls is None:
            return await self._server.stop(None)
        self._health.stop()
        self._calls.feed.close()
        await self._server.stop(self.bounds.grace)
        await self._calls.feed.end()
        self._calls.wrong_tokens.close()
        self._readiness.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        return None

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def options(bounds: RpcBounds) -> list[tuple[str, Any]]:
    return [
        ("grpc.so_reuseport", 0),  # a second service must not share the port
        ("grpc.max_receive_message_length", bounds.max_message),
        ("grpc.max_metadata_size", LONGEST_METADATA),
        ("grpc.absolute_max_metadata_size", LONGEST_METADATA),
        ("grpc.max_concurrent_streams", bounds.max_requests),  # of one connection
        ("grpc.max_allowed_incoming_connections", bounds.max_connections),
        ("grpc.max_connection_idle_ms", 10 * MINUTE),
        ("grpc.keepalive_time_ms", MINUTE),  # streams whose client is gone are seen
        ("grpc.keepalive_timeout_ms", MINUTE // 3),
        ("grpc.http2.min_ping_interval_without_data_ms", MINUTE // 6),  # clients may ping every ten seconds
        ("grpc.http2.max_ping_strikes", 2),
    ]


def address(host: str, port: int) -> str:
    """Where a client on this machine finds it."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


class Health:
    def __init__(self, check: ReadinessCheck) -> None:
        self._check = check
        self._calls = 0
        self._stopping = asyncio.Event()

    def handlers(self) -> grpc.GenericRpcHandler:
        coding: dict[str, Any] = {
            "request_deserializer": Request.FromString, "response_serializer": Status.SerializeToString,
        }  # fmt: skip
        watch: Any = self.watch
        check: Any = self.check
        return grpc.method_handlers_generic_handler(
            HEALTH,
            {
                "Check": grpc.stream_stream_rpc_method_handler(check, **coding),
                "Watch": grpc.stream_stream_rpc_method_handler(watch, **coding),
            },
        )

    async def status(self) -> int:
        if self._stopping.is_set():
            return Status.NOT_SERVING
        parts = await self._check.parts()
        is_ready = all(part == OK for part in parts.values())
        return Status.SERVING if is_ready else Status.NOT_SERVING

    async def check(self, _requests: AsyncIterator[Any], context: ServicerContext) -> None:
        await self.bounded(self.answer_once, context)

    async def watch(self, _requests: AsyncIterator[Any], context: ServicerContext) -> None:
        await self.bounded(self.answer_changes, context)

    async def bounded(self, answer: Any, context: ServicerContext) -> None:
        if self._calls >= MOST_CALLS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MOST_CALLS} ask for the health already")
        self._calls += 1
        try:
            request = await read_message(context)
            await answer(request.service, context)
        except Invalid as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await context.abort(grpc.StatusCode.INTERNAL, status_of(error, "Health").details)
        finally:
            self._calls -= 1

    async def answer_once(self, name: str, context: ServicerContext) -> None:
        if name not in NAMES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        await context.write(Status(status=await self.status()))

    async def answer_changes(self, name: str, context: ServicerContext) -> None:
        last = None
        while True:
            is_last = self._stopping.is_set()
            now = await self.status() if name in NAMES else Status.SERVICE_UNKNOWN
            if now != last:
                await context.write(Status(status=now))
            if is_last:
                return
            last = now
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), PACE)

    def stop(self) -> None:
        """Whoever watches is told; then the streams end."""
        self._stopping.set()


class BoundedReflection:
    """At most so many streams at once: whoever has no token cannot take them from those who have."""

    def __init__(self) -> None:
        self._servicer: Any = reflection.aio.ReflectionServicer((*SERVICES, HEALTH, reflection.SERVICE_NAME))
        self._streams = 0

    async def ServerReflectionInfo(  # noqa: N802 - named by the standard
        self, requests: AsyncIterator[Any], context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> AsyncIterator[Any]:
        if self._streams >= MOST_STREAMS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MOST_STREAMS} streams are open already")
        self._streams += 1
        try:
            async for answer in self._servicer.ServerReflectionInfo(requests, context):
                yield answer
        finally:
            self._streams -= 1


def add_reflection(server: grpc.aio.Server) -> None:
    add: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
    add(BoundedReflection(), server)
