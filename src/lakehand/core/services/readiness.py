# SPDX-License-Identifier: Apache-2.0
"""Whether the service can work, for interfaces that answer even while the database hangs."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

log = logging.getLogger(__name__)
TIMEOUT = 2.0  # seconds
OK = "ok"


class ReadinessCheck:
    """Checks the readiness in a thread of its own, one check at a time, with a timeout."""

    def __init__(self, readiness: Callable[[], Mapping[str, str]], timeout: float = TIMEOUT) -> None:
        self._readiness = readiness
        self._timeout = timeout
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._asked: asyncio.Future[Mapping[str, str]] | None = None
        self._last: Mapping[str, str] = {}

    async def parts(self) -> Mapping[str, str]:
        loop = asyncio.get_running_loop()
        asked = self._asked
        if asked is None or asked.done() or asked.get_loop() is not loop:
            asked = self._asked = loop.run_in_executor(self._thread, self._ask)
        # Whoever waits with us may have asked again before we go on: only this future is ours.
        done, _ = await asyncio.wait([asked], timeout=self._timeout)
        return asked.result() if done else {"service": f"no answer within {self._timeout:g} s"}

    def _ask(self) -> Mapping[str, str]:
        try:
            parts = self._readiness()
        except Exception as error:
            parts = {"service": str(error) or type(error).__name__}
        self._log(parts)
        return parts

    def _log(self, parts: Mapping[str, str]) -> None:
        """Once per change. The details are for operators; callers without a token do not see them."""
        wrong = {part: text for part, text in parts.items() if text != OK}
        if wrong and wrong != self._last:
            log.warning("not ready", extra={"parts": wrong})
        self._last = wrong

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
