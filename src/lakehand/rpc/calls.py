# SPDX-License-Identifier: Apache-2.0
"""Carries out calls: recognises the caller, keeps to the deadline, runs services in threads, answers errors.

The message of a call is read within a time limit: half a message keeps no call open.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast
from urllib.parse import unquote

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from lakehand.core.services.wrong_tokens import WrongTokens
from lakehand.domain.access import ANONYMOUS, Caller, Role
from lakehand.domain.errors import Invalid, Unauthorized
from lakehand.rpc.context import Call, RpcBounds, RpcContext, Stream
from lakehand.rpc.errors import DeadlinePassed, TooManyCalls, code_of, status_of
from lakehand.rpc.methods import Method

T = TypeVar("T")
ServicerContext: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"
VIA = "grpc"
NOBODY = Caller(name=ANONYMOUS, role=Role.VIEWER, via=VIA)  # of calls that need no token
READ_TIMEOUT = 10.0  # seconds


@dataclass(kw_only=True)
class Calls:
    context: RpcContext
    bounds: RpcBounds
    threads: ThreadPoolExecutor
    wrong_tokens: WrongTokens
    open_streams: int = 0
    in_flight: int = 0  # calls whose token is checked or that are carried out

    async def handler(self, method: Method, secret: str) -> Handler:
        """How this call is answered. Without a valid token its message is not even read.

        As a stream of requests, of which one is read: the library would wait for the message without a time limit.
        """
        try:
            with self.counted():
                caller = await self.recognise(method, secret)
        except Exception as error:
            return refusal(partial(self.fail, method, error))
        if method.streams:
            return grpc.stream_stream_rpc_method_handler(self.stream(method, caller, secret))
        return grpc.stream_unary_rpc_method_handler(self.unary(method, caller))

    @contextmanager
    def counted(self) -> Iterator[None]:
        """The library has a bound, too, but calls without a token would count for it."""
        if self.in_flight >= self.bounds.max_requests:
            raise TooManyCalls(f"{self.bounds.max_requests} calls are under way already: call again later")
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    async def recognise(self, method: Method, secret: str) -> Caller:
        if not method.needs_token:
            return NOBODY
        caller = await self.run(self.context.services.access.caller, secret, via=VIA)
        if caller is None:
            raise Unauthorized("the call has no valid token: send the metadata authorization: Bearer TOKEN")
        return caller

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self.threads, partial(function, *args, **kwargs))

    def unary(self, method: Method, caller: Caller) -> Any:
        async def answer(_requests: AsyncIterator[bytes], context: ServicerContext) -> bytes:
            began, code = time.perf_counter(), grpc.StatusCode.CANCELLED
            try:
                raw = await read_message(context)
                with self.counted():
                    call, deadline = self.call_of(caller, context), deadline_of(context)
                    found: bytes = await self.run(carry_out, method, call, raw, deadline)
                code = grpc.StatusCode.OK
            except Exception as error:
                code = code_of(error)
                await self.fail(method, error, context)
                raise
            else:
                return found
            finally:
                self.context.metrics.call(method.name, code.name, time.perf_counter() - began)

        return answer

    def stream(self, method: Method, caller: Caller, secret: str) -> Any:
        async def answer(_requests: AsyncIterator[bytes], context: ServicerContext) -> None:
            code, opened = grpc.StatusCode.CANCELLED, self.opened(caller, secret, context)
            self.count_streams(1)
            try:
                if self.open_streams > self.bounds.max_streams:
                    raise TooManyCalls(f"{self.bounds.max_streams} streams are open already: end some of them")
                raw = await read_message(context)
                messages: AsyncIterator[Any] = method.function(opened, decoded(method, raw))
                with self.counted():
                    async with aclosing(messages) as sent:  # type: ignore[type-var]
                        async for message in sent:
                            await context.write(message.SerializeToString())
                code = grpc.StatusCode.OK
            except Exception as error:
                code = code_of(error)
                await self.fail(method, error, context)
            finally:
                opened.leave()
                self.count_streams(-1)
                self.context.metrics.call(method.name, code.name, None)

        return answer

    def count_streams(self, more: int) -> None:
        self.open_streams += more
        self.context.metrics.streams(self.open_streams)

    def opened(self, caller: Caller, secret: str, context: ServicerContext) -> Stream:
        def is_valid() -> bool:
            return self.context.services.access.caller(secret, via=VIA) is not None

        return Stream(
            call=self.call_of(caller, context), run=self.run, is_valid=is_valid,
            opened=partial(context.send_initial_metadata, ()), recheck=self.bounds.recheck,
        )  # fmt: skip

    def call_of(self, caller: Caller, context: ServicerContext) -> Call:
        return Call(context=self.context, caller=replace(caller, address=address_of(context.peer())))

    async def fail(self, method: Method, error: Exception, context: ServicerContext) -> None:
        """Answer with the status of the error."""
        if isinstance(error, grpc.aio.AbortError):
            raise error
        if isinstance(error, Unauthorized):
            self.wrong_tokens.note(address_of(context.peer()), method.name)
        status = status_of(error, method.name)
        await context.abort(status.code, status.details, status.trailing_metadata or ())


def refusal(fail: Callable[[ServicerContext], Any]) -> Handler:
    async def refuse(_requests: AsyncIterator[bytes], context: ServicerContext) -> None:
        await fail(context)

    return grpc.stream_stream_rpc_method_handler(refuse)


def deadline_of(context: ServicerContext) -> float | None:
    remaining = cast("float | None", context.time_remaining())
    return None if remaining is None else time.monotonic() + remaining


def carry_out(method: Method, call: Call, raw: bytes, deadline: float | None) -> bytes:
    """In a thread. A call that waited for it until its deadline is not begun."""
    if deadline is not None and time.monotonic() >= deadline:
        raise DeadlinePassed
    answer: bytes = method.function(call, decoded(method, raw)).SerializeToString()
    return answer


def decoded(method: Method, raw: bytes) -> Any:
    try:
        return method.request.FromString(raw)
    except DecodeError:
        raise Invalid(f"the message is not of type {method.request.DESCRIPTOR.name}") from None


def address_of(peer: str) -> str:
    """The address alone, from ``ipv4:127.0.0.1:5000`` or ``ipv6:[::1]:5000``, maybe percent-encoded."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return "unknown"
    return rest.rpartition(":")[0].strip("[]") or "unknown"


def secret_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The token of the metadata ``authorization: Bearer TOKEN``; empty without one."""
    for key, value in metadata or ():
        if key == "authorization" and isinstance(value, str):
            scheme, _, secret = value.partition(" ")
            return secret.strip() if scheme.lower() == "bearer" else ""
    return ""


async def read_message(context: "grpc.aio.ServicerContext[Any, Any]", timeout: float = READ_TIMEOUT) -> Any:
    try:
        message = await asyncio.wait_for(context.read(), timeout)
    except asyncio.TimeoutError:
        raise Invalid(f"the call sent no message within {timeout:g} s") from None
    if message is grpc.aio.EOF:
        raise Invalid("the call sent no message")
    return message
