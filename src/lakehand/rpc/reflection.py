# SPDX-License-Identifier: Apache-2.0
"""Reflection: tells clients without our .proto files which calls there are. It needs no token."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from lakehand.rpc.methods import SERVICES

MOST_STREAMS = 50
HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


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


def add_to(server: grpc.aio.Server) -> None:
    add: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
    add(BoundedReflection(), server)
