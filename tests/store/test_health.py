# SPDX-License-Identifier: Apache-2.0
"""Health points and problems of tables, on every database: stored with a probe or an operation, bounded, cleaned up."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from lakehand.api.tables import HistoryQuery
from lakehand.core.loops.cleaning import HistoryCleaner
from lakehand.core.ports import Store
from lakehand.core.services.tables import HealthService
from lakehand.domain.errors import LeaseLost
from lakehand.domain.health import MOST_POINTS, HealthPoint
from lakehand.domain.operations import Status
from lakehand.domain.tables import TableId
from lakehand.store import SqlStore
from lakehand.store.schema import health_point
from tests.store.given import HOUR, MINUTE, NOON, SECOND, TWO, a_finished_operation, a_running_operation, a_table, spec

DAY = timedelta(days=1)
FILES: Mapping[str, Any] = {
    "files": 12,
    "small_files": 7,
    "bytes": 5 * 2**40,
    "small_bytes": 9,
    "histogram": {"< 1 MB": 12},
}


def point(at: datetime = NOON, **numbers: Any) -> HealthPoint:
    return HealthPoint(at=at, numbers=numbers or FILES)


def put(store: Store, table: TableId, *points: HealthPoint) -> None:
    for one in points:
        store.probes.finish({}, {}, health={table: one}, now=one.at)


def row_count(store: SqlStore) -> int:
    return store.database.read(lambda tx: tx.execute(select(func.count()).select_from(health_point)).scalar_one())


def test_points_come_back_oldest_first_and_once(store: Store) -> None:
    table, other = a_table(store), a_table(store, "/w/other")
    late, early = point(NOON + HOUR, files=2), point(NOON, files=1)
    put(store, table.id, early, late)
    put(store, other.id, point(NOON, files=9))

    assert store.health.of_table(table.id) == [early, late]
    assert store.health.of_table(table.id, since=NOON + SECOND) == [late]
    assert store.health.of_table(table.id, since=NOON + HOUR) == [late]
    assert store.health.of_table(TableId(12345)) == []


def test_the_table_itself_knows_its_newest_numbers(store: Store) -> None:
    table = a_table(store)
    assert table.health is None

    put(store, table.id, point(NOON), point(NOON - HOUR, files=99))  # counted slowly: an old point comes late

    known = store.tables.get(table.id).health
    assert known == HealthPoint(at=NOON, numbers={k: v for k, v in FILES.items() if k != "histogram"})


def test_a_number_that_is_unknown_by_now_is_not_kept_from_before(store: Store) -> None:
    table = a_table(store)

    put(store, table.id, point(NOON), point(NOON + MINUTE, files=3))

    assert store.tables.get(table.id).health == HealthPoint(at=NOON + MINUTE, numbers={"files": 3})


def test_many_tables_get_their_points_in_one_transaction(store: Store) -> None:
    tables = [a_table(store, f"/w/{n}") for n in range(40)]
    store.probes.finish({}, {}, health={t.id: point(NOON, files=t.id) for t in tables}, now=NOON)

    assert all(store.health.of_table(t.id) == [point(NOON, files=t.id)] for t in tables)


def test_an_operation_stores_the_health_of_its_table(store: Store) -> None:
    running = a_running_operation(store)

    ended = running.moved_to(Status.SUCCEEDED, at=NOON + HOUR, reason="done")
    store.operations.save(ended, now=NOON + HOUR, health=point(NOON + HOUR))

    assert store.health.of_table(running.table) == [point(NOON + HOUR)]


def test_a_late_holder_stores_no_health(store: Store) -> None:
    running = a_running_operation(store)
    taken = store.operations.take_over(running, holder=TWO, now=NOON + HOUR, time_to_live=MINUTE)
    assert taken is not None

    ended = running.moved_to(Status.SUCCEEDED, at=NOON, reason="done")
    with pytest.raises(LeaseLost):
        store.operations.save(ended, now=NOON, health=point())

    assert store.health.of_table(running.table) == []


def test_rows_of_a_table_are_bounded(store: SqlStore) -> None:
    table, other = a_table(store), a_table(store, "/w/other")
    step = timedelta(hours=5, minutes=7)
    times = [NOON + number * step for number in range(200)] + [NOON + 60 * DAY + n * MINUTE for n in range(100)]

    for at in times:
        store.probes.finish({}, {}, health={table.id: point(at), other.id: point(at)}, now=at)

    assert row_count(store) <= 2 * MOST_POINTS
    assert store.health.of_table(table.id)[-1].at == times[-1]


def test_a_problem_keeps_its_first_time_and_is_gone_when_the_table_can_be_read(store: Store) -> None:
    table, fine = a_table(store), a_table(store, "/w/fine")
    due = {table.id: NOON + HOUR, fine.id: NOON + HOUR}

    store.probes.finish(due, {}, problems={table.id: "no such bucket"}, now=NOON)
    store.probes.finish(due, {}, problems={table.id: "access denied"}, now=NOON + MINUTE)

    broken = store.tables.get(table.id)
    assert (broken.problem, broken.problem_since) == ("access denied", NOON)
    assert (broken.probed_at, broken.probe_due) == (NOON + MINUTE, NOON + HOUR)
    assert store.tables.get(fine.id).problem == ""

    store.probes.finish(due, {}, now=NOON + HOUR)
    fixed = store.tables.get(table.id)
    assert (fixed.problem, fixed.problem_since) == ("", None)


@pytest.mark.parametrize("text", ["x" * 5000, "zero \x00 byte", "half \ud800 character", "\N{PILE OF POO}" * 3000])
def test_any_text_can_be_a_problem_and_is_shortened(store: Store, text: str) -> None:
    table = a_table(store)

    store.probes.finish({table.id: NOON + HOUR}, {}, problems={table.id: text}, now=NOON)

    assert 10 <= len(store.tables.get(table.id).problem) <= 2000


def test_a_table_that_is_registered_again_has_no_problem_and_no_numbers_but_its_history(store: Store) -> None:
    table = a_table(store)
    store.probes.finish({table.id: NOON + HOUR}, {}, problems={table.id: "gone"}, health={table.id: point()}, now=NOON)
    store.tables.remove(table.id, now=NOON)

    again, is_new = store.tables.add(spec(), now=NOON + HOUR)

    assert is_new
    assert (again.id, again.problem, again.problem_since, again.health) == (table.id, "", None, None)
    assert store.health.of_table(table.id) == [point()]


def test_points_older_than_the_history_are_removed_in_batches_also_of_removed_tables(store: SqlStore) -> None:
    kept, gone = a_table(store, "/w/kept"), a_table(store, "/w/gone")
    now = store.clock.now()
    put(store, kept.id, *(point(now - 40 * DAY + n * MINUTE) for n in range(3)), point(now - HOUR))
    put(store, gone.id, point(now - 40 * DAY))
    store.tables.remove(gone.id, now=now)

    assert store.health.remove_before(now - 30 * DAY, limit=2) == 2
    HistoryCleaner(store=store, keep_history=timedelta(days=30)).run_once()

    assert [one.at for one in store.health.of_table(kept.id)] == [store_time(now - HOUR)]
    assert store.health.of_table(gone.id) == []
    assert store.health.remove_before(now - 30 * DAY, limit=2) == 0


def store_time(at: datetime) -> datetime:
    """Databases keep milliseconds."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def test_the_history_of_a_table_has_its_points_and_the_operations_that_ended_in_that_time(store: Store) -> None:
    table = a_table(store)
    before = a_finished_operation(store, table, "1", Status.SUCCEEDED, at=NOON - HOUR)
    first = a_finished_operation(store, table, "2", Status.SUCCEEDED, at=NOON + MINUTE)
    second = a_finished_operation(store, table, "3", Status.FAILED, at=NOON + 2 * MINUTE)
    a_running_operation(store, table, "4")
    put(store, table.id, point(NOON), point(NOON + HOUR, files=2))

    history = HealthService(store=store).history(table.id)

    assert history.table.id == table.id
    assert [p.at for p in history.points] == [NOON, NOON + HOUR]
    assert [(o.id, o.status) for o in history.operations] == [(first.id, "succeeded"), (second.id, "failed")]
    early = HistoryQuery(since=NOON - DAY)
    assert before.id in {o.id for o in HealthService(store=store).history(table.id, early).operations}


def test_results_of_operations_are_shown_without_their_lists(store: Store) -> None:
    running = a_running_operation(store)
    result: Any = {"removed_files": 3, "share": 0.5, "would_delete": ["a"], "dry": True, "why": "text"}
    ended = replace(running.moved_to(Status.SUCCEEDED, at=NOON, reason="done"), result=result)
    store.operations.save(ended, now=NOON)

    [shown] = HealthService(store=store).history(running.table).operations
    assert shown.result == {"removed_files": 3, "share": 0.5}
    assert (shown.action, shown.finished_at) == ("compaction", NOON)


def test_only_the_newest_ends_are_read(store: Store) -> None:
    table = a_table(store)
    ended = [a_finished_operation(store, table, str(n), Status.SUCCEEDED) for n in range(4)]

    assert [end.id for end in store.operations.ends(table.id, limit=2)] == [ended[3].id, ended[2].id]
