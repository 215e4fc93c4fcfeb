# SPDX-License-Identifier: Apache-2.0
"""Tables that were registered together are not evaluated together."""

from datetime import timedelta

from lakehand.domain.schedules import spread

HOUR = timedelta(hours=1)


def test_keys_are_spread_evenly_over_their_share_of_the_interval() -> None:
    minutes = [spread(str(number), HOUR, share=1.0) // timedelta(minutes=1) for number in range(6000)]

    counts = [minutes.count(minute) for minute in range(60)]

    assert sum(counts) == 6000
    assert 50 < min(counts) <= max(counts) < 150


def test_a_key_keeps_its_offset_and_its_share() -> None:
    assert spread("7", HOUR) == spread("7", HOUR) < HOUR / 10
