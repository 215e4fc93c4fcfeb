# SPDX-License-Identifier: Apache-2.0
"""Probes: each table is due once, whatever number of actions it has, and is taken on by one instance."""

from typing import Any

from lakehand.core.ports import DueProbe, Store
from lakehand.domain.schedules import EvaluationResult
from lakehand.domain.tables import HEARTBEAT_TIMEOUT, TableChanges
from tests.store.given import CLEAN, COMPACTION, HOUR, MINUTE, NOON, ONE, SECOND, a_table, spec

FIRST = NOON + HEARTBEAT_TIMEOUT


def claimed(store: Store, *, at: Any = FIRST, limit: int = 100) -> list[DueProbe]:
    return list(store.probes.claim_due(now=at, time_to_live=MINUTE, limit=limit))


def test_a_new_table_is_due_at_its_heartbeat_once_for_all_its_actions(store: Store) -> None:
    table = a_table(store, action_types=frozenset({COMPACTION, CLEAN}))

    assert claimed(store, at=FIRST - SECOND) == []
    [probe] = claimed(store)

    assert (probe.table, probe.format, probe.location, probe.token) == (table.id, "hudi", table.location, None)
    assert probe.heartbeat == HEARTBEAT_TIMEOUT.total_seconds() * 1000


def test_a_table_is_taken_on_by_one_and_by_another_if_that_one_dies(store: Store) -> None:
    a_table(store)

    assert len(claimed(store)) == 1
    assert claimed(store, at=FIRST + MINUTE - SECOND) == []
    assert len(claimed(store, at=FIRST + MINUTE)) == 1


def test_a_probed_table_is_due_again_at_the_given_time(store: Store) -> None:
    same, changed = a_table(store, "/w/same"), a_table(store, "/w/changed")
    claimed(store)

    later = FIRST + 2 * HOUR
    store.probes.finish({same.id: FIRST + HOUR, changed.id: later}, {changed.id: "token"}, now=FIRST)

    same, changed = store.tables.get(same.id), store.tables.get(changed.id)
    assert (same.probed_at, same.change_token, same.changed_at, same.probe_due) == (FIRST, None, None, FIRST + HOUR)
    assert (changed.probed_at, changed.change_token, changed.changed_at) == (FIRST, "token", FIRST)
    assert [p.table for p in claimed(store, at=FIRST + HOUR)] == [same.id]
    assert {(p.table, p.token) for p in claimed(store, at=later)} == {(same.id, None), (changed.id, "token")}


def test_there_is_nothing_to_finish_where_nothing_was_probed(store: Store) -> None:
    store.probes.finish({}, {}, now=NOON)
    store.probes.defer([], until=NOON)


def test_a_probe_that_was_put_off_has_seen_nothing(store: Store) -> None:
    table = a_table(store)
    claimed(store)

    store.probes.defer([table.id], until=FIRST + SECOND)

    assert store.tables.get(table.id).probed_at is None
    assert claimed(store, at=FIRST) == []
    assert len(claimed(store, at=FIRST + SECOND)) == 1


def test_paused_and_removed_tables_are_not_probed(store: Store) -> None:
    paused, removed = a_table(store, "/w/paused"), a_table(store, "/w/removed")
    store.tables.change(paused.id, TableChanges(paused=True), now=NOON)
    store.tables.remove(removed.id, now=NOON)

    assert claimed(store) == []

    store.tables.change(paused.id, TableChanges(paused=False), now=NOON)
    store.tables.add(spec("/w/removed"), now=FIRST)
    assert [p.table for p in claimed(store)] == [paused.id]
    assert {p.table for p in claimed(store, at=FIRST + HEARTBEAT_TIMEOUT)} == {paused.id, removed.id}


def test_the_most_overdue_come_first(store: Store) -> None:
    tables = [a_table(store, f"/w/{n}") for n in range(5)]
    store.probes.finish({t.id: FIRST - n * MINUTE for n, t in enumerate(tables)}, {}, now=NOON)

    assert {p.table for p in claimed(store, limit=2)} == {tables[3].id, tables[4].id}


def test_another_heartbeat_counts_from_now_on(store: Store) -> None:
    table = a_table(store)

    store.tables.change(table.id, TableChanges(heartbeat_timeout=MINUTE), now=NOON + SECOND)

    [probe] = claimed(store, at=NOON + SECOND)
    assert probe.heartbeat == 60_000


def test_many_tables_are_claimed_and_given_back_in_pieces(store: Store) -> None:
    tables = [a_table(store, f"/w/{n}", table_name=f"t{n}") for n in range(300)]

    probes = claimed(store, limit=1000)
    store.probes.finish({p.table: FIRST + HOUR for p in probes}, {}, now=FIRST)

    assert {p.table for p in probes} == {t.id for t in tables}
    assert len(claimed(store, at=FIRST + HOUR, limit=1000)) == 300


def test_a_probe_wakes_the_named_actions_and_stores_results_along_with_its_token(store: Store) -> None:
    table = a_table(store, action_types=frozenset({COMPACTION, CLEAN}))
    due = store.schedules.claim_due(holder=ONE, now=NOON, time_to_live=MINUTE, limit=9).schedules
    [clean] = [schedule for schedule in due if schedule.action == CLEAN]

    result = EvaluationResult(schedule=clean, next_due=NOON + HOUR, reason="nothing to clean")
    woken = [(table.id, COMPACTION)]
    store.probes.finish({table.id: FIRST}, {table.id: "t1"}, woken=woken, results=[result], now=NOON)

    after = {schedule.action: schedule for schedule in store.schedules.of_table(table.id)}
    assert store.tables.get(table.id).change_token == "t1"
    assert {action: schedule.wakes for action, schedule in after.items()} == {COMPACTION: 1, CLEAN: 0}
    assert (after[CLEAN].last_reason, after[CLEAN].due) == ("nothing to clean", NOON + HOUR)
