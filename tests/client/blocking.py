# SPDX-License-Identifier: Apache-2.0
"""The async client with the interface of the sync one, so that one test can hold both to the same."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from inspect import isasyncgen, iscoroutine
from typing import Any

from lakehand.client import AsyncLakehandClient


class Blocking:
    """Runs what an async object returns to its end, in one event loop."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if isinstance(found, str):
            return found
        return self._run(found) if callable(found) else Blocking(found, self._loop)

    def _run(self, method: Any) -> Any:
        def run(*arguments: Any, **named: Any) -> Any:
            result = method(*arguments, **named)
            if iscoroutine(result):
                return self._loop.run_until_complete(result)
            return drain(result, self._loop) if isasyncgen(result) else Blocking(result, self._loop)

        return run


class BlockingClient(Blocking):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(AsyncLakehandClient(*arguments, **named), asyncio.new_event_loop())

    def close(self) -> None:
        self._loop.run_until_complete(self._inner.close())
        self._loop.close()


def drain(items: AsyncIterator[Any], loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    try:
        while True:
            try:
                yield loop.run_until_complete(anext(items))
            except StopAsyncIteration:
                return
    finally:
        if not loop.is_closed():
            loop.run_until_complete(items.aclose())  # type: ignore[attr-defined]
