# SPDX-License-Identifier: Apache-2.0
"""Do the steps of calls over HTTP: one runner blocks, the other one awaits. The clients differ in nothing else."""

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize

from lakehand.client.outcomes import Outcome, Retries
from lakehand.client.steps import Items, ItemSteps, Request, Sleep, Steps

if TYPE_CHECKING:  # importing it takes a fifth of a second
    import httpx

T = TypeVar("T")
CONNECT_TIMEOUT = 5.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How requests are sent, and what their outcomes mean; the same for both runners."""

    url: str
    retries: Retries
    timeout: float

    def arguments(self, request: Request[Any]) -> dict[str, Any]:
        import httpx

        timeout = httpx.Timeout(self.timeout, connect=min(self.timeout, CONNECT_TIMEOUT))
        arguments: dict[str, Any] = {"method": request.method, "url": request.path, "timeout": timeout}
        arguments |= {"params": dict(request.parameters)} if request.parameters else {}
        return arguments | ({} if request.body is None else {"json": request.body})

    def answered(self, answer: "httpx.Response") -> Outcome:
        after = answer.headers.get("Retry-After", "")
        return Outcome(
            url=self.url, retries=self.retries, status=answer.status_code, phrase=answer.reason_phrase,
            body=answer.content, retry_after=float(after) if after.isascii() and after.isdecimal() else None,
        )  # fmt: skip

    def failed(self, error: "httpx.TransportError") -> Outcome:
        import httpx

        unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        return Outcome(
            url=self.url, retries=self.retries, problem=str(error), is_late=isinstance(error, httpx.TimeoutException),
            was_sent=not isinstance(error, unsent),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Runner:
    http: "httpx.Client"
    sending: Sending
    owner: "Runner | None" = None  # the one that closes the connections when nobody uses them any more

    def __post_init__(self) -> None:
        if self.owner is None:
            finalize(self, self.http.close)

    def run(self, steps: Steps[T]) -> T:
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                answer: T = end.value
                return answer
            result = self.do(step)

    def iterate(self, steps: ItemSteps[T]) -> Iterator[T]:
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration:
                return
            result = None
            if isinstance(step, Items):
                yield from step.items
            else:
                result = self.do(step)

    def do(self, step: Request[Any] | Sleep) -> Outcome | None:
        import httpx

        if isinstance(step, Sleep):
            time.sleep(step.seconds)
            return None
        try:
            return self.sending.answered(self.http.request(**self.sending.arguments(step)))
        except httpx.TransportError as error:
            return self.sending.failed(error)


@dataclass(frozen=True, eq=False)
class AsyncRunner:
    http: "httpx.AsyncClient"
    sending: Sending
    owner: "AsyncRunner | None" = None

    async def run(self, steps: Steps[T]) -> T:
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                answer: T = end.value
                return answer
            result = await self.do(step)

    async def iterate(self, steps: ItemSteps[T]) -> AsyncIterator[T]:
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration:
                return
            result = None
            if isinstance(step, Items):
                for item in step.items:
                    yield item
            else:
                result = await self.do(step)

    async def do(self, step: Request[Any] | Sleep) -> Outcome | None:
        import asyncio  # commands need none of it

        import httpx

        if isinstance(step, Sleep):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return self.sending.answered(await self.http.request(**self.sending.arguments(step)))
        except httpx.TransportError as error:
            return self.sending.failed(error)
