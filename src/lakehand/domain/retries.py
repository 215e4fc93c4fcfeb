# SPDX-License-Identifier: Apache-2.0
"""Retries: how long to wait before the next attempt, and when to stop trying."""

from dataclasses import dataclass
from datetime import timedelta

from lakehand.domain.processes import Failure, Remedy


def back_off(times: int, *, first: timedelta, longest: timedelta, factor: float = 2.0) -> timedelta:
    """The pause after so many failures in a row: the first one, then longer by the factor each time."""
    return min(first * factor ** min(max(times, 1) - 1, 32), longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with jitter; ``not yet`` answers wait a steady time and have a much larger budget."""

    max_attempts: int = 5
    first_delay: timedelta = timedelta(seconds=30)
    factor: float = 2.0
    longest_delay: timedelta = timedelta(hours=1)
    jitter: float = 0.2  # the share of the delay that is random
    not_yet_delay: timedelta = timedelta(seconds=30)
    max_deferrals: int = 120

    def delay(
        self, failure: Failure, *, run_times: int, deferrals: int, random: float, retry_on_error: bool = True
    ) -> timedelta | None:
        """How long to wait before the next attempt; None to stop trying. ``random`` is in [0, 1)."""
        if failure.remedy is Remedy.FATAL:
            return None
        if failure.remedy is Remedy.NOT_YET:
            return (
                self._jittered(failure.delay or self.not_yet_delay, random) if deferrals < self.max_deferrals else None
            )
        attempts = run_times - deferrals
        if attempts >= (self.max_attempts if retry_on_error else 1):
            return None
        wait = back_off(attempts, first=self.first_delay, longest=self.longest_delay, factor=self.factor)
        return self._jittered(failure.delay or wait, random)

    def _jittered(self, delay: timedelta, random: float) -> timedelta:
        return delay * (1 + self.jitter * random)
