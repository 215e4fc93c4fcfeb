# SPDX-License-Identifier: Apache-2.0
"""Reads the message of a call within a time limit: half a message keeps no call open."""

import asyncio
from typing import Any

import grpc.aio

from lakehand.domain.errors import Invalid

READ_TIMEOUT = 10.0  # seconds


async def read_message(context: "grpc.aio.ServicerContext[Any, Any]", timeout: float = READ_TIMEOUT) -> Any:
    try:
        message = await asyncio.wait_for(context.read(), timeout)
    except asyncio.TimeoutError:
        raise Invalid(f"the call sent no message within {timeout:g} s") from None
    if message is grpc.aio.EOF:
        raise Invalid("the call sent no message")
    return message
