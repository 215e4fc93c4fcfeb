# SPDX-License-Identifier: Apache-2.0
"""The standard health service: SERVING while the service is ready. It needs no token, and no details are shown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from lakehand.core.readiness import OK, ReadinessCheck
from lakehand.rpc.methods import SERVICES

Status = health_pb2.HealthCheckResponse
PACE = 2.0  # seconds between two checks for somebody who watches
MOST_WATCHERS = 50
NAMES = frozenset({"", *SERVICES})


class Health(health_pb2_grpc.HealthServicer):
    def __init__(self, check: ReadinessCheck) -> None:
        self._check = check
        self._watchers = 0
        self._stopping = asyncio.Event()

    async def status(self) -> int:
        if self._stopping.is_set():
            return Status.NOT_SERVING
        parts = await self._check.parts()
        is_ready = all(part == OK for part in parts.values())
        return Status.SERVING if is_ready else Status.NOT_SERVING

    async def Check(  # noqa: N802 - named by the standard
        self, request: health_pb2.HealthCheckRequest, context: "grpc.aio.ServicerContext[object, object]"
    ) -> health_pb2.HealthCheckResponse:
        if request.service not in NAMES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        return Status(status=await self.status())

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: "grpc.aio.ServicerContext[object, object]"
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        if self._watchers >= MOST_WATCHERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MOST_WATCHERS} watch the health already")
        self._watchers += 1
        try:
            last = None
            while not (self._stopping.is_set() and last == Status.NOT_SERVING):
                now = await self.status() if request.service in NAMES else Status.SERVICE_UNKNOWN
                if now != last:
                    yield Status(status=now)
                last = now
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), PACE)
                if self._stopping.is_set() and request.service not in NAMES:
                    return
        finally:
            self._watchers -= 1

    def stop(self) -> None:
        self._stopping.set()
