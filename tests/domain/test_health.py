# SPDX-License-Identifier: Apache-2.0
"""Health points: the archive has a fixed number of slots, keeps the newest point, and thins out with age."""

from datetime import datetime, timedelta, timezone
from itertools import chain, pairwise

from lakehand.domain.health import MOST_POINTS, TIERS, HealthPoint, merge, slots_of

START = datetime(2026, 1, 1, 0, 0, 7, tzinfo=timezone.utc)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def archive_of(minutes: int) -> list[HealthPoint]:
    """What is stored after a point a minute on the last two days, and every 5 minutes before, of which as much is left.
    Never more than the bound, on the way."""
    stored: dict[tuple[int, int], datetime] = {}
    for number in chain(range(4, minutes - 2 * 24 * 60, 5), range(minutes - 2 * 24 * 60, minutes)):
        at = START + number * MINUTE
        for slot in slots_of(at):
            stored[slot] = at
        assert len(stored) <= MOST_POINTS
    return [HealthPoint(at=at) for at in stored.values()]


def test_a_year_of_a_point_a_minute_fills_368_slots_and_keeps_the_newest_point() -> None:
    minutes = 366 * 24 * 60
    stored = archive_of(minutes)

    assert len(stored) == MOST_POINTS == 368
    series = merge(stored)
    assert series[-1].at == START + (minutes - 1) * MINUTE
    assert series[-1].at - series[0].at > 360 * DAY


def test_the_older_the_points_the_further_they_are_apart() -> None:
    series = merge(archive_of(120 * 24 * 60))

    ages = [series[-1].at - point.at for point in series]
    gaps = [(later, earlier - later) for earlier, later in pairwise(ages)]
    assert {gap for age, gap in gaps if age < 59 * MINUTE} == {MINUTE}
    assert max(gap for age, gap in gaps if age < 23 * HOUR) == 15 * MINUTE
    assert max(gap for age, gap in gaps if age < 29 * DAY) == 6 * HOUR
    assert max(gap for age, gap in gaps) == 4 * DAY


def test_a_point_that_several_tiers_keep_is_in_the_series_once_and_the_oldest_comes_first() -> None:
    late, early = HealthPoint(at=START + HOUR), HealthPoint(at=START)

    assert merge([late, early, late, early]) == [early, late]


def test_each_tier_has_one_slot_for_a_time_and_the_next_step_has_the_next_slot() -> None:
    assert [tier for tier, _ in slots_of(START)] == list(range(len(TIERS)))
    for number, tier in enumerate(TIERS):
        slot, following = (dict(slots_of(at))[number] for at in (START, START + tier.step))
        assert following == (slot + 1) % tier.slots
        assert dict(slots_of(START + tier.step * tier.slots))[number] == slot


def test_what_is_no_count_is_unknown() -> None:
    point = HealthPoint(at=START, numbers={"files": 3, "histogram": {"< 1 MB": 3}})

    assert (point.count("files"), point.count("histogram"), point.count("rows")) == (3, None, None)
