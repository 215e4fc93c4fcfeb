# SPDX-License-Identifier: Apache-2.0
"""What jobs of all formats refuse, whatever they are asked for; no Spark."""

import time
from datetime import datetime, timezone
from typing import Any

import pytest

from lakehand.jobs.safety import (
    BelowFloor,
    ImplausibleShare,
    UnsafeRequest,
    cut_off,
    day_before,
    day_literal,
    operation_tag,
    refuse_implausible,
    whole_number,
    would_delete,
)

HOUR, MINUTE = 3_600_000, 60_000


def ago(milliseconds: int) -> int:
    return int(time.time() * 1000) - milliseconds


def test_an_older_cut_off_is_taken_as_it_is() -> None:
    asked = ago(100 * HOUR)

    assert cut_off(asked, 24) == asked
    assert cut_off(0, 24) == 0


def test_a_service_whose_clock_is_a_little_ahead_gets_the_least_age() -> None:
    found = cut_off(ago(24 * HOUR - 6 * MINUTE), 24)

    assert abs(found - ago(24 * HOUR)) < MINUTE


@pytest.mark.parametrize("age", [23 * HOUR, 0, -HOUR, -(10**15)])
def test_nothing_younger_than_the_least_age_is_deleted(age: int) -> None:
    with pytest.raises(BelowFloor, match="nothing younger than 24 h is deleted"):
        cut_off(ago(age), 24)


@pytest.mark.parametrize("asked", [None, True, "0", "yesterday", 1.5, [0]])
def test_what_is_no_time_is_no_cut_off(asked: Any) -> None:
    with pytest.raises(UnsafeRequest, match="is not a time"):
        cut_off(asked, 24)


def test_a_number_that_is_large_enough_is_taken() -> None:
    assert (whole_number(1, "it"), whole_number(5, "it", 5), whole_number(0, "it", 0)) == (1, 5, 0)


@pytest.mark.parametrize("value", [0, -1, True, None, "7", 7.0])
def test_what_is_less_or_no_number_is_refused(value: Any) -> None:
    with pytest.raises(BelowFloor, match="a whole number of at least 1 is needed"):
        whole_number(value, "it")


def test_a_large_share_of_the_files_goes_only_when_it_is_confirmed() -> None:
    refuse_implausible({}, 30, 100)
    refuse_implausible({"confirm": True}, 100, 100)
    for confirm in (None, False, "yes", 1):
        with pytest.raises(ImplausibleShare, match=r"31 of 100 files \(31%\) look like orphans"):
            refuse_implausible({"confirm": confirm}, 31, 100)


@pytest.mark.parametrize("tag", [None, "", 7, "a'b", "a b", "-a", "a\n", "x" * 202])
def test_work_that_nobody_could_recognise_later_is_refused(tag: Any) -> None:
    with pytest.raises(UnsafeRequest, match="no operation tag"):
        operation_tag({"operation_tag": tag})
    assert operation_tag({"operation_tag": "7-20261115:compact"}) == "7-20261115:compact"


def test_a_dry_run_names_the_first_thousand_files_and_counts_all() -> None:
    found = would_delete([str(number) for number in range(1200)])

    assert (len(found["would_delete"]), found["would_delete_files"]) == (1000, 1200)
    assert would_delete(["a"], 7, 0) == {"would_delete": ["a"], "would_delete_files": 7, "would_delete_bytes": 0}


DAY = 24 * HOUR


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp with zone"])
def test_rows_stay_for_seven_days_whatever_is_asked_for(kind: str) -> None:
    with pytest.raises(BelowFloor, match="nothing younger than 168 h is deleted"):
        day_before({"cutoff": ago(6 * DAY)}, kind)


@pytest.mark.parametrize("kind", ["date", "timestamp", "anything else"])
def test_where_no_zone_is_known_rows_stay_for_half_a_day_more(kind: str) -> None:
    assert day_before({"cutoff": ago(7 * DAY + 13 * HOUR)}, kind).timestamp() * 1000 <= ago(7 * DAY + 13 * HOUR)
    with pytest.raises(BelowFloor, match="nothing younger than 180 h is deleted"):
        day_before({"cutoff": ago(7 * DAY + HOUR)}, kind)


@pytest.mark.parametrize("asked", [None, True, "0", 1.5])
def test_rows_are_old_by_a_time_alone(asked: Any) -> None:
    with pytest.raises(UnsafeRequest, match="is not a time"):
        day_before({"cutoff": asked}, "date")


def test_only_whole_days_are_old() -> None:
    noon = datetime(2026, 3, 4, 12, 30, tzinfo=timezone.utc)
    assert day_before({"cutoff": int(noon.timestamp() * 1000)}, "date") == datetime(2026, 3, 4, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("kind", "literal"),
    [
        ("date", "DATE '2026-03-04'"),
        ("timestamptz", "TIMESTAMP '2026-03-04 00:00:00Z'"),
        ("timestamp", "TIMESTAMP_NTZ '2026-03-04 00:00:00'"),
    ],
)
def test_a_day_begins_at_midnight_of_utc_in_every_session(kind: str, literal: str) -> None:
    assert day_literal(kind, datetime(2026, 3, 4, tzinfo=timezone.utc)) == literal


def test_most_rows_of_a_table_go_only_when_it_is_confirmed() -> None:
    refuse_implausible({}, 50, 100, what="are old", of="rows", most=0.5)
    with pytest.raises(ImplausibleShare, match=r"51 of 100 rows \(51%\) are old; more than 50% is not deleted"):
        refuse_implausible({}, 51, 100, what="are old", of="rows", most=0.5)
