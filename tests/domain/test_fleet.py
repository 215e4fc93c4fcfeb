# SPDX-License-Identifier: Apache-2.0
"""States of tables, and the points of the fleet's history that are kept."""

from datetime import datetime, timedelta, timezone

from lakehand.domain.fleet import ATTENTION, OperationsDone, TableState, floor_time, superfluous_points
from tests.domain.words import NOON

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
YEAR = 365 * DAY


def kept(times: list[datetime], *, now: datetime = NOON, keep: timedelta = YEAR) -> list[datetime]:
    gone = superfluous_points(times, now=now, keep=keep)
    return [time for time in times if time not in gone]


def test_every_state_has_a_place_in_the_order_of_attention() -> None:
    assert sorted(ATTENTION) == sorted(TableState)


def test_a_time_is_floored_to_whole_steps_since_the_epoch() -> None:
    time = datetime(2026, 1, 1, 12, 7, 31, tzinfo=timezone.utc)

    assert floor_time(time, 5 * MINUTE) == datetime(2026, 1, 1, 12, 5, tzinfo=timezone.utc)
    assert floor_time(time, DAY) == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert floor_time(NOON, HOUR) == NOON


def test_the_points_of_the_last_two_days_are_all_kept() -> None:
    times = [NOON - 5 * MINUTE * number for number in range(2 * 288)]

    assert kept(times) == times


def test_older_ones_are_kept_once_per_hour_and_after_two_months_once_per_day() -> None:
    three_days, a_quarter = NOON - 3 * DAY, NOON - 90 * DAY
    times = [start + 5 * MINUTE * number for start in (a_quarter, three_days) for number in range(24)]

    assert kept(times) == [a_quarter, three_days, three_days + HOUR]


def test_the_first_point_of_an_hour_counts_even_if_it_is_late() -> None:
    late = NOON - 3 * DAY + 20 * MINUTE

    assert kept([late, late + 5 * MINUTE, late + HOUR]) == [late, late + HOUR]


def test_nothing_is_kept_longer_than_the_history() -> None:
    times = [NOON - 31 * DAY, NOON - 29 * DAY]

    assert kept(times, keep=30 * DAY) == [NOON - 29 * DAY]


def test_thinning_again_changes_nothing_and_the_number_of_points_is_bounded() -> None:
    times: list[datetime] = []
    for number in range(600):
        now = NOON + number * 12 * HOUR
        times = kept([*times, now], now=now, keep=100 * DAY)

    assert len(times) == 60 * 2 + 40 + 1
    assert kept(times, now=now, keep=100 * DAY) == times


def test_the_success_rate_is_unknown_until_something_ran() -> None:
    assert OperationsDone(since=NOON, operations=2).success_rate is None
    assert OperationsDone(since=NOON, operations=5, succeeded=3, failed=1).success_rate == 0.75
