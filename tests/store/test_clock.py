# SPDX-License-Identifier: Apache-2.0
"""The clock is the database's, in UTC, exact to the millisecond, whatever the session thinks of time zones."""

from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import text

from lakehand.store import SqlStore
from lakehand.store.clock import to_millis, to_time
from tests.store.given import NOON

NATIVE = {
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
    "postgresql": "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')",
    "mysql": "SELECT DATE_FORMAT(UTC_TIMESTAMP(3), '%Y-%m-%d %H:%i:%s.%f')",
}


def test_the_clock_lies_between_two_looks_at_the_databases_own(store: SqlStore) -> None:
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
