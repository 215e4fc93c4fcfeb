# SPDX-License-Identifier: Apache-2.0
"""Schedules: due ones are evaluated by one instance, and no wake-up is lost meanwhile."""

from dataclasses import replace
from typing import Any

import pytest

from lakehand.core.ports import Store
from lakehand.domain.operations import InstanceId
from lakehand.domain.schedules import EvaluationResult, Schedule
from lakehand.domain.tables import Format, Table, TableChanges
from lakehand.spi import ProcessTriggerStrategy, at_fixed_rate
from tests.store.given import CLEAN, CLUSTERING, COMPACTION, HOUR, HUDI, MINUTE, NOON, ONE, SECOND, TWO, a_table

ALL = frozenset({COMPACTION, CLUSTERING, CLEAN})


def claimed(store: Store, *, holder: InstanceId = ONE, after: Any = 0 * SECOND, limit: int = 100) -> list[Schedule]:
    return list(store.schedules.claim_due(holder=holder, now=NOON + after, time_to_live=MINUTE, limit=limit).schedules)


def finish(store: Store, schedule: Schedule, **values: Any) -> Schedule:
    """End a look that began at noon, a second later."""
    reply: dict[str, Any] = {"next_due": NOON + HOUR, "reason": "nothing to do"}
    store.schedules.finish([EvaluationResult(schedule=schedule, **(reply | values))], now=NOON + SECOND)
    return schedule_of(store, schedule)


def schedule_of(store: Store, like: Schedule | Table) -> Schedule:
    if isinstance(like, Table):
        [schedule] = store.schedules.of_table(like.id)
        return schedule
    return next(s for s in store.schedules.of_table(like.table) if s.action == like.action)


def test_a_due_schedule_is_claimed_by_one(store: Store) -> None:
    table = a_table(store)

    [schedule] = claimed(store)

    assert (schedule.table, schedule.action, schedule.due) == (table.id, COMPACTION, NOON)
    assert schedule.token is not None
    assert claimed(store, holder=TWO) == []


def test_nothing_is_claimed_before_it_is_due(store: Store) -> None:
    a_table(store)

    assert claimed(store, after=-SECOND) == []


def test_what_an_instance_was_evaluating_is_due_at_once_when_it_starts_again(store: Store) -> None:
    table = a_table(store)
    [late] = claimed(store)

    assert (store.schedules.release(TWO), store.schedules.release(ONE)) == (0, 1)
    [again] = claimed(store)
    finish(store, late, reason="too late")

    assert (again.table, again.token != late.token) == (table.id, True)
    assert schedule_of(store, table).last_reason != "too late"


def test_an_evaluation_that_never_ended_is_repeated_with_a_fresh_token(store: Store) -> None:
    a_table(store)
    [first] = claimed(store)

    assert claimed(store, holder=TWO, after=MINUTE - SECOND) == []
    [second] = claimed(store, holder=TWO, after=MINUTE)

    assert second.token != first.token


def test_due_schedules_come_with_their_tables(store: Store) -> None:
    tables = {table.id: table for table in (a_table(store, "/w/one"), a_table(store, "/w/two"))}

    due = store.schedules.claim_due(holder=ONE, now=NOON, time_to_live=MINUTE, limit=9)

    assert {schedule.table for schedule in due.schedules} == set(tables)
    assert due.tables == tables


def test_paused_and_removed_tables_are_left_alone(store: Store) -> None:
    paused, removed = a_table(store, "/w/paused"), a_table(store, "/w/removed")
    store.tables.change(paused.id, TableChanges(paused=True), now=NOON)
    store.tables.remove(removed.id, now=NOON)

    assert claimed(store) == []

    store.tables.change(paused.id, TableChanges(paused=False), now=NOON)
    assert [s.table for s in claimed(store)] == [paused.id]


def test_the_most_overdue_come_first_and_all_actions_of_a_table_together(store: Store) -> None:
    newer, older = a_table(store, "/w/newer", action_types=ALL), a_table(store, "/w/older", action_types=ALL)
    for schedule in claimed(store):
        finish(store, schedule, next_due=NOON + (2 if schedule.table == newer.id else 1) * MINUTE)

    due = claimed(store, after=HOUR, limit=1)

    assert [s.table for s in due] == [older.id] * 3
    assert {s.action for s in due} == ALL
    assert [s.table for s in claimed(store, after=HOUR)] == [newer.id] * 3


def test_only_the_due_actions_of_a_table_are_claimed(store: Store) -> None:
    a_table(store, action_types=ALL)
    for schedule in claimed(store):
        finish(store, schedule, next_due=NOON + (MINUTE if schedule.action == CLEAN else HOUR))

    assert [s.action for s in claimed(store, after=MINUTE)] == [CLEAN]


def test_a_finished_evaluation_stores_what_it_saw_and_when_the_next_is_due(store: Store) -> None:
    a_table(store)

    seen = finish(store, *claimed(store))

    assert (seen.due, seen.evaluated_at, seen.last_reason) == (NOON + HOUR, NOON + SECOND, "nothing to do")
    assert (seen.token, seen.last_start, seen.wakes) == (None, None, 0)
    assert claimed(store, after=HOUR - SECOND) == []


def test_an_evaluation_may_keep_the_last_reason_and_record_a_start(store: Store) -> None:
    table = a_table(store)
    finish(store, *claimed(store), reason="the first word", started=True)
    store.schedules.wake([table.id], now=NOON)

    seen = finish(store, *claimed(store), reason=None)

    assert (seen.last_reason, seen.last_start) == ("the first word", NOON + SECOND)


def test_the_result_of_an_evaluation_whose_lease_was_lost_is_not_written(store: Store) -> None:
    a_table(store)
    [late] = claimed(store)
    [taker] = claimed(store, holder=TWO, after=MINUTE)

    after = finish(store, late, reason="too late")

    assert after == taker


def test_one_lost_evaluation_does_not_hinder_the_others(store: Store) -> None:
    a_table(store, action_types=ALL)
    looks = [EvaluationResult(schedule=s, next_due=NOON + HOUR, reason="seen") for s in claimed(store)]
    lost = replace(looks[1], schedule=replace(looks[1].schedule, token=None))

    store.schedules.finish([looks[0], lost, looks[2]], now=NOON)

    reply = {s.action: s.last_reason for s in store.schedules.of_table(lost.schedule.table)}
    assert reply == {**dict.fromkeys(ALL, "seen"), lost.schedule.action: ""}


def test_a_wake_makes_a_schedule_due_now(store: Store) -> None:
    table = a_table(store)
    finish(store, *claimed(store))

    store.schedules.wake([table.id], now=NOON + MINUTE)

    woken = schedule_of(store, table)
    assert (woken.due, woken.wakes) == (NOON + MINUTE, 1)
    assert claimed(store, after=MINUTE - SECOND) == []
    assert [s.wakes for s in claimed(store, after=MINUTE)] == [1]


def test_a_wake_leaves_an_overdue_schedule_where_it_is(store: Store) -> None:
    table = a_table(store)

    store.schedules.wake([table.id], now=NOON + HOUR)

    assert schedule_of(store, table).due == NOON


def test_a_second_wake_adds_nothing_until_an_evaluation_begins(store: Store) -> None:
    table = a_table(store)
    for _ in range(3):
        store.schedules.wake([table.id], now=NOON)
    [looking] = claimed(store)
    store.schedules.wake([table.id], now=NOON)

    assert (looking.wakes, schedule_of(store, table).wakes) == (1, 2)


def test_a_wake_may_be_for_one_action_and_many_tables(store: Store) -> None:
    tables = [a_table(store, f"/w/t{n}", action_types=ALL) for n in range(3)]
    for schedule in claimed(store):
        finish(store, schedule)

    store.schedules.wake([t.id for t in tables[:2]], now=NOON, action=CLEAN)
    store.schedules.wake([], now=NOON)

    assert {(s.table, s.action) for s in claimed(store)} == {(tables[0].id, CLEAN), (tables[1].id, CLEAN)}


@pytest.mark.parametrize("wakes_before", [0, 3])
def test_a_wake_during_an_evaluation_keeps_it_due(store: Store, wakes_before: int) -> None:
    table = a_table(store)
    for _ in range(wakes_before):
        store.schedules.wake([table.id], now=NOON)
    [looking] = claimed(store)
    store.schedules.wake([table.id], now=NOON + SECOND)

    after = finish(store, looking)

    assert (after.due, after.wakes, after.last_reason) == (NOON, 1, "nothing to do")
    [again] = claimed(store, after=SECOND)
    assert finish(store, again).due == NOON + HOUR


def test_wakes_before_an_evaluation_are_answered_by_it(store: Store) -> None:
    table = a_table(store)
    store.schedules.wake([table.id], now=NOON)
    store.schedules.wake([table.id], now=NOON)

    after = finish(store, *claimed(store))

    assert (after.wakes, after.due) == (0, NOON + HOUR)


def test_an_evaluation_can_request_a_later_decision_without_being_due_earlier(store: Store) -> None:
    table = a_table(store)
    store.schedules.wake([table.id], now=NOON)

    after = finish(store, *claimed(store), decide_at=NOON + 2 * HOUR, decided_at=NOON + SECOND, saw="t1")

    assert (after.wakes, after.due, after.decide_at) == (0, NOON + HOUR, NOON + 2 * HOUR)
    assert (after.last_decision, after.seen_token) == (NOON + SECOND, "t1")


def test_a_quiet_evaluation_leaves_all_but_the_time_as_it_is(store: Store) -> None:
    a_table(store)
    known = finish(store, *claimed(store), decide_at=NOON + 9 * HOUR, decided_at=NOON + SECOND, started=True, saw="t1")
    [again] = claimed(store, after=HOUR)
    look = EvaluationResult(schedule=again, next_due=NOON + 2 * HOUR, reason=None, decide_at=again.decide_at)

    store.schedules.finish([look], now=NOON + HOUR)

    assert schedule_of(store, known) == replace(known, due=NOON + 2 * HOUR, evaluated_at=NOON + HOUR)


def test_a_quiet_evaluation_of_one_action_leaves_those_of_the_others_to_their_holder(store: Store) -> None:
    a_table(store, action_types=ALL)
    for schedule in claimed(store):
        finish(store, schedule)
    due = claimed(store, after=HOUR)
    one = next(s for s in due if s.action == CLEAN)

    store.schedules.finish([EvaluationResult(schedule=one, next_due=NOON + 2 * HOUR, reason=None)], now=NOON + HOUR)

    held = {s.action: s.token is not None for s in store.schedules.of_table(one.table)}
    assert held == {COMPACTION: True, CLUSTERING: True, CLEAN: False}


def test_a_quiet_evaluation_that_was_lost_or_woken_is_not_postponed(store: Store) -> None:
    woken, lost = a_table(store, "/w/woken"), a_table(store, "/w/lost")
    for schedule in claimed(store):
        finish(store, schedule)
    looks = [EvaluationResult(schedule=s, next_due=NOON + 2 * HOUR, reason=None) for s in claimed(store, after=HOUR)]
    stale = [replace(x, schedule=replace(x.schedule, token=None)) if x.schedule.table == lost.id else x for x in looks]
    store.schedules.wake([woken.id], now=NOON + HOUR)

    store.schedules.finish(stale, now=NOON + HOUR)

    assert schedule_of(store, woken).due == schedule_of(store, lost).due == NOON + HOUR
    assert schedule_of(store, lost).token is not None


def test_a_decision_requested_during_an_evaluation_stays_requested(store: Store) -> None:
    table = a_table(store)
    [looking] = claimed(store)
    store.schedules.wake([table.id], now=NOON + SECOND, decide=True)

    after = finish(store, looking, decide_at=NOON + 9 * HOUR)

    assert (after.due, after.decide_at) == (NOON, NOON + SECOND)
    [again] = claimed(store, after=SECOND)
    assert finish(store, again).decide_at is None


def test_a_deferred_evaluation_has_seen_nothing_and_keeps_its_wake_ups(store: Store) -> None:
    table = a_table(store)
    store.schedules.wake([table.id], now=NOON, decide=True)

    after = finish(store, *claimed(store), reason=None, deferred=True, next_due=NOON + MINUTE)

    assert (after.due, after.wakes, after.decide_at, after.evaluated_at) == (NOON + MINUTE, 1, NOON, None)


def test_an_action_that_is_no_longer_wanted_ends_with_its_evaluation(store: Store) -> None:
    table = a_table(store, action_types=ALL)
    looks = [EvaluationResult(schedule=s, next_due=NOON + HOUR, reason="seen") for s in claimed(store)]
    store.tables.change(table.id, TableChanges(action_types=frozenset({CLEAN})), now=NOON)

    store.schedules.finish(looks, now=NOON)

    assert [s.action for s in store.schedules.of_table(table.id)] == [CLEAN]


def test_finishing_no_evaluations_is_allowed(store: Store) -> None:
    store.schedules.finish([], now=NOON)


def quiet(schedule: Schedule, **values: Any) -> EvaluationResult:
    return EvaluationResult(schedule=schedule, **({"next_due": NOON + HOUR, "reason": None} | values))


def test_evaluations_that_found_nothing_new_end_together_and_keep_the_last_reason(store: Store) -> None:
    tables = [a_table(store, f"/w/{number}", action_types=ALL) for number in range(3)]
    store.schedules.finish(
        [EvaluationResult(schedule=s, next_due=NOON, reason="was said") for s in claimed(store)], now=NOON
    )
    first, *others = claimed(store)

    reported = EvaluationResult(schedule=first, next_due=NOON + MINUTE, reason="new", started=True)
    late = quiet(others[-1], next_due=NOON + 2 * HOUR)
    store.schedules.finish([reported, late, *(quiet(s) for s in others[:-1])], now=NOON + SECOND)

    found = [s for table in tables for s in store.schedules.of_table(table.id)]
    assert all((s.evaluated_at, s.token) == (NOON + SECOND, None) for s in found)
    assert sorted((s.due - NOON, s.last_reason) for s in found) == [
        (MINUTE, "new"), *[(HOUR, "was said")] * 7, (2 * HOUR, "was said"),
    ]  # fmt: skip


def test_a_wake_during_a_quiet_evaluation_keeps_it_due(store: Store) -> None:
    a_table(store)
    [schedule] = claimed(store)

    store.schedules.wake([schedule.table], now=NOON)
    store.schedules.finish([quiet(schedule)], now=NOON + SECOND)

    after = schedule_of(store, schedule)
    assert (after.due, after.wakes, after.token) == (NOON, 1, None)


def test_a_quiet_evaluation_that_was_lost_is_not_written(store: Store) -> None:
    a_table(store)
    [late] = claimed(store)
    [taker] = claimed(store, holder=TWO, after=MINUTE)

    store.schedules.finish([quiet(late)], now=NOON + MINUTE)

    assert schedule_of(store, late).token == taker.token


HOURLY, FOLLOWING = at_fixed_rate(HOUR), ProcessTriggerStrategy(on_new_snapshot=True)


def at_rest(store: Store, *, until: Any = 9 * HOUR, saw: str = "t1", name: str = "t", **values: Any) -> Table:
    """A table whose one action was decided upon and waits."""
    table = a_table(store, f"/w/{name}", **values)
    finish(store, *claimed(store), next_due=NOON + until, decided_at=NOON + SECOND, saw=saw)
    store.probes.finish({table.id: NOON + HOUR}, {table.id: "t1"}, now=NOON)
    return table


@pytest.mark.parametrize(
    ("strategy", "until", "saw", "is_due"),
    [
        (FOLLOWING, 9 * HOUR, "t1", False),
        (FOLLOWING, 9 * HOUR, "t0", True),
        (HOURLY, 1.1 * HOUR, "t1", False),
        (HOURLY, 1.3 * HOUR, "t1", True),
        (HOURLY, 1.1 * HOUR, "t0", False),
        (None, HOUR, "t1", True),
    ],
)
def test_what_does_not_fit_its_strategy_any_more_is_due(
    store: Store, strategy: ProcessTriggerStrategy | None, until: Any, saw: str, is_due: bool
) -> None:
    at_rest(store, until=until, saw=saw)

    store.schedules.refit({} if strategy is None else {(HUDI, COMPACTION): strategy}, now=NOON)

    assert bool(claimed(store)) is is_due


def test_a_strategy_is_for_its_own_format(store: Store) -> None:
    delta = Format("delta")
    mine, other = at_rest(store, name="mine"), at_rest(store, name="other", format=delta)

    store.schedules.refit({(HUDI, COMPACTION): FOLLOWING, (delta, COMPACTION): HOURLY}, now=NOON)

    assert [schedule_of(store, one).due for one in (mine, other)] == [NOON + 9 * HOUR, NOON]
