# SPDX-License-Identifier: Apache-2.0
"""The services that every gRPC server has: health and reflection. They need no token, and tell nothing of tables.

Health is SERVING while the service is ready. Reflection tells clients without our .proto files which calls there are.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, TypeAlias

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from lakehand.core.services.readiness import OK, ReadinessCheck
from lakehand.domain.errors import Invalid
from lakehand.rpc.calls import read_message
from lakehand.rpc.errors import status_of
from lakehand.rpc.methods import SERVICES

Request, Status = health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse
ServicerContext: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
PACE = 2.0  # seconds between two checks for somebody who watches
MOST_CALLS = 50  # at once: whoever has no token cannot take them from those who have
NAMES = frozenset({"", *SERVICES})
MOST_STREAMS = 50
HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


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
