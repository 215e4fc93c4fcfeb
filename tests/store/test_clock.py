# SPDX-License-Identifier: Apache-2.0
"""The clock is the database's, in UTC, exact to the millisecond, whatever the session thinks of time zones."""

from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import text

from lakehand.store import SqlStore
from lakehand.store.clock import ESTIMATE_FOR, to_millis, to_time
from tests.store.given import NOON

NATIVE = {
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
    "postgresql": "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')",
    "mysql": "SELECT DATE_FORMAT(UTC_TIMESTAMP(3), '%Y-%m-%d %H:%i:%s.%f')",
}


def test_an_estimate_goes_on_from_the_last_reading_and_is_read_anew_after_a_while(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [1000.0]
    monkeypatch.setattr("lakehand.store.clock.time.monotonic", lambda: passed[0])
    read = store.clock.now()

    passed[0] += ESTIMATE_FOR
    assert store.clock.estimate() == read + timedelta(seconds=ESTIMATE_FOR)
    passed[0] += 1
    assert read <= store.clock.estimate() < read + timedelta(seconds=ESTIMATE_FOR), "the database was asked"


def test_the_clock_lies_between_two_readings_of_the_databases_own(store: SqlStore) -> None:
    def native() -> datetime:
        shown = store.database.read(lambda tx: tx.execute(text(NATIVE[store.database.dialect])).scalar_one())
        return datetime.strptime(shown, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=timezone.utc)

    before, now, after = native(), store.clock.now(), native()

    assert before <= now <= after
    assert now.tzinfo is timezone.utc


def test_time_does_not_go_back(store: SqlStore) -> None:
    times = [store.clock.now() for _ in range(50)]

    assert times == sorted(times)


@pytest.mark.parametrize("moment", [NOON, NOON + timedelta(milliseconds=1), NOON + timedelta(milliseconds=999)])
def test_milliseconds_survive_the_way_there_and_back(moment: datetime) -> None:
    assert to_time(to_millis(moment)) == moment


def test_what_is_finer_than_a_millisecond_is_cut_off() -> None:
    assert to_time(to_millis(NOON + timedelta(microseconds=1999))) == NOON + timedelta(milliseconds=1)
