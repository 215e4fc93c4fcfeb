# SPDX-License-Identifier: Apache-2.0
"""A bound on how fast new tables may arrive, so that a flood of names cannot fill the database."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

MINUTE = timedelta(minutes=1)


@dataclass(kw_only=True)
class Flood:
    """Counts newcomers per minute, in this process."""

    per_minute: int
    _since: datetime | None = None
    _count: int = field(default=0)

    def lets_pass(self, now: datetime) -> bool:
        if self._since is None or now - self._since >= MINUTE:
            self._since, self._count = now, 0
        self._count += 1
        return self._count <= self.per_minute
