# SPDX-License-Identifier: Apache-2.0
"""When a request is sent again, and after how long."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Bounded, with exponential back-off and jitter. Only requests whose repetition is safe are sent again."""

    attempts: int = 4  # in all; 1: never again
    first: float = 0.25  # seconds of back-off after the first attempt; doubles with each
    longest: float = 10.0  # seconds; a service that asks for more time is not asked again

    def delay(self, attempt: int, retry_after: float | None = None) -> float | None:
        """Seconds to wait after this attempt, counted from 1; None: give up."""
        if attempt >= self.attempts or (retry_after or 0.0) > self.longest:
            return None
        back_off = min(self.longest, self.first * 2.0 ** (attempt - 1))
        return max(retry_after or 0.0, back_off * random.uniform(0.5, 1.0))


NO_RETRIES = Retries(attempts=1)
