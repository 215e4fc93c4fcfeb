# SPDX-License-Identifier: Apache-2.0
"""The health of a table over time: points, and the round-robin archive that keeps fewer of them the older they are."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from lakehand.domain.processes import Json

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPoint:
    """The numbers of a table at one time, by the names that all formats share."""

    at: datetime
    numbers: Mapping[str, Json] = field(default_factory=dict)

    def count(self, name: str) -> int | None:
        """One of the numbers; None if it is unknown."""
        value = self.numbers.get(name)
        return value if isinstance(value, int) else None


class Tier(NamedTuple):
    """One resolution of the archive: a point a step, in so many slots; the next round overwrites them."""

    step: timedelta
    slots: int


TIERS = (
    Tier(timedelta(minutes=1), 60),  # an hour
    Tier(timedelta(minutes=15), 96),  # a day
    Tier(timedelta(hours=6), 120),  # 30 days
    Tier(timedelta(days=4), 92),  # a year
)
MOST_POINTS = sum(tier.slots for tier in TIERS)  # of one table


def slots_of(at: datetime) -> Iterator[tuple[int, int]]:
    """Where a point of this time is stored: one slot in each tier, as (tier, slot)."""
    for number, tier in enumerate(TIERS):
        yield number, (at - EPOCH) // tier.step % tier.slots


def merge(points: Iterable[HealthPoint]) -> list[HealthPoint]:
    """The points of all tiers as one series, oldest first; a point that several tiers keep is there once."""
    by_time = {point.at: point for point in points}
    return [by_time[at] for at in sorted(by_time)]
