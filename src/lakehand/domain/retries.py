# SPDX-License-Identifier: Apache-2.0
"""Retries: how long to wait before the next attempt, and when to stop trying."""

from dataclasses import dataclass
from datetime import timedelta

from lakehand.domain.processes import Failure, Remedy


def back_off(failures: int, *, first: timedelta, longest: timedelta, factor: float = 2.0) -> timedelta:
    """How long to wait after so many failures in a row: ``first``, then ``factor`` times as long after each."""
    return min(first * factor ** min(max(failures - 1, 0), 32), longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with jitter; ``not yet`` answers wait a steady time and have a much larger budget."""

    max_attempts: int = 5
    first_delay: timedelta = timedelta(seconds=30)
    factor: float = 2.0
    longest_delay: timedelta = timedelta(hours=1)
    jitter: float = 0.2  # the share of the delay that chance adds
    not_yet_delay: timedelta = timedelta(seconds=30)
    max_patience: int = 120

    def delay(self, failure: Failure, *, run_times: int, patience: int, chance: float) -> timedelta | None:
        """How long to wait before trying again; None when trying is over. ``chance`` is in [0, 1)."""
        if failure.remedy is Remedy.FATAL:
            return None
        if failure.remedy is Remedy.NOT_YET:
            return (
                self._with_jitter(failure.delay or self.not_yet_delay, chance) if patience < self.max_patience else None
            )
        if run_times - patience >= self.max_attempts:
            return None
        backed_off = back_off(
            run_times - patience, first=self.first_delay, longest=self.longest_delay, factor=self.factor
        )
        return self._with_jitter(failure.delay or backed_off, chance)

    def _with_jitter(self, delay: timedelta, chance: float) -> timedelta:
        return delay * (1 + self.jitter * chance)
