# SPDX-License-Identifier: Apache-2.0
"""Times and sizes as people say them."""

from datetime import datetime, timezone

import pytest

from lakehand.cli.times import size, span, took, when

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.34, "340 ms"), (2.25, "2.2 s"), (90, "90 s"), (150, "2 min"), (7200, "2 h"), (3 * 86400, "3 d")],
)
def test_a_span_is_said_in_the_unit_that_fits(seconds: float, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (None, "–"),
        ("2026-11-15T11:59:48.000Z", "12 s ago"),
        ("2026-11-15T12:10:00.000Z", "in 10 min"),
        ("2026-11-15T12:00:00.400Z", "now"),
    ],
)
def test_a_moment_is_said_from_now(moment: str | None, said: str) -> None:
    assert when(moment, NOON) == said


def test_what_still_runs_has_taken_until_now() -> None:
    assert took("2026-11-15T11:59:00.000Z", None, NOON) == "60 s"
    assert took("2026-11-15T11:59:00.000Z", "2026-11-15T11:59:05.000Z", NOON) == "5.0 s"
    assert took(None, None) == "–"


@pytest.mark.parametrize(("number", "said"), [(999, "999 B"), (15_900_000, "15.9 MB"), (3_000_000_000_000, "3.0 TB")])
def test_a_size_is_said_in_the_unit_that_fits(number: int, said: str) -> None:
    assert size(number) == said
