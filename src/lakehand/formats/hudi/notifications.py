# SPDX-License-Identifier: Apache-2.0
"""What Hudi's writers may send: which instants are plausible, and which options pass the allow-list."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from lakehand.domain.actions import Action
from lakehand.domain.processes import Instant
from lakehand.domain.tables import Format

AHEAD = timedelta(days=1)  # instants are local times of the writer
_INSTANT = re.compile(r"[0-9]{14}|[0-9]{17}")
_VALUE = re.compile(r"[A-Za-z0-9_.:+-]{1,64}")


class HudiNotifications:
    """Given to the intake, which knows no format."""

    format = Format("hudi")
    # A compaction request registers an unknown table for compaction alone. The client sends the other requests also
    # for plans that the writer runs itself.
    first_actions = frozenset({Action.register("compaction")})
    # Sizes and counts only: nothing here loads a class, a file or a script, or lowers a retention.
    options = frozenset(
        {
            "hoodie.compaction.target.io",
            "hoodie.compaction.lazy.block.read",
            "hoodie.memory.compaction.fraction",
            "hoodie.parquet.max.file.size",
            "hoodie.parquet.small.file.limit",
            "hoodie.clustering.plan.strategy.target.file.max.bytes",
            "hoodie.clustering.plan.strategy.small.file.limit",
            "hoodie.clustering.plan.strategy.max.num.groups",
            "hoodie.clustering.plan.strategy.max.bytes.per.group",
            "hoodie.cleaner.parallelism",
        }
    )

    def plausible_instants(self, instants: Sequence[str], now: datetime) -> Sequence[Instant]:
        """Those that are well-formed and not in the future, each once."""
        latest = latest_instant(now)
        return [Instant(i) for i in dict.fromkeys(instants) if _INSTANT.fullmatch(i) and i[:14] <= latest]

    def is_value(self, text: str) -> bool:
        return bool(_VALUE.fullmatch(text))


@lru_cache(maxsize=8)
def latest_instant(now: datetime) -> str:
    """Cached: all notifications of a batch have the same time, and formatting it is slow."""
    return (now + AHEAD).astimezone(timezone.utc).strftime("%Y%m%d%H%M%S")
