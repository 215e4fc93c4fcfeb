# SPDX-License-Identifier: Apache-2.0
"""The dispatch rules: priority, age, queues, owners, parallelism, one live operation per table."""

from dataclasses import replace
from datetime import timedelta

from lakehand.domain.operations import Operation
from lakehand.domain.processes import TableProcess
from lakehand.domain.rules import Busy, Candidate, Choice, Limits, Usage, choose
from lakehand.domain.tables import Format
from tests.domain.words import COMPACTION, NOON, an_operation


def pick(*operations: Operation, busy: tuple[Busy, ...] = (), limits: Limits | None = None) -> Choice:
    candidates = [Candidate(operation=o, format=Format("hudi")) for o in operations]
    return choose(candidates, busy, limits or Limits(running=10), NOON)


def went(choice: Choice) -> list[int]:
    return [o.id for o in choice.go]


def a_busy(table: int = 99, queue: str = "default", owner: str = "default") -> Busy:
    return Busy(table=table, slot=f"{table}:table", queue=queue, owner=owner, format="hudi", action="compaction")


def test_the_higher_priority_goes_first() -> None:
    assert went(pick(an_operation(1, table=1), an_operation(2, table=2, priority=5))) == [2, 1]


def test_waiting_long_enough_beats_any_priority_so_nothing_starves() -> None:
    long_ago = NOON - timedelta(hours=2)
    old = an_operation(1, table=1, due_at=long_ago, not_before=long_ago)
    assert went(pick(old, an_operation(2, table=2, priority=5))) == [1, 2]


def test_what_was_put_back_waits_anew_so_that_it_stops_no_other() -> None:
    tried = an_operation(1, table=1, due_at=NOON - timedelta(hours=2), not_before=NOON)
    assert went(pick(tried, an_operation(2, table=2, priority=5))) == [2, 1]


def test_one_table_has_one_live_operation() -> None:
    choice = pick(an_operation(1, table=7), an_operation(2, table=7))
    assert went(choice) == [1]
    assert choice.wait == {2: "another operation of this table runs"}
    assert went(pick(an_operation(1, table=99), busy=(a_busy(table=99),))) == []


def test_urgent_work_goes_before_its_equals() -> None:
    urgent = replace(an_operation(2, table=7), process=TableProcess(action=COMPACTION, urgent=True))
    assert went(pick(an_operation(1, table=7), urgent)) == [2]


def test_a_full_queue_lets_others_pass() -> None:
    limits = Limits(running=10, queues={"slow": 1})
    waiting = (an_operation(1, table=1, queue="slow"), an_operation(2, table=2))
    choice = pick(*waiting, busy=(a_busy(queue="slow"),), limits=limits)
    assert went(choice) == [2]
    assert choice.wait[1] == "queue slow is at its limit of 1"


def test_an_owner_gets_its_share_while_others_wait() -> None:
    greedy = [an_operation(n, table=n, owner="a") for n in range(1, 5)]
    choice = pick(*greedy, an_operation(9, table=9, owner="b"), limits=Limits(running=4))
    assert sorted(went(choice)) == [1, 2, 9]


def test_an_owner_alone_may_use_all_slots() -> None:
    assert len(went(pick(*[an_operation(n, table=n) for n in range(1, 5)], limits=Limits(running=4)))) == 4


def test_parallelism_of_a_pair_is_a_limit() -> None:
    limits = Limits(running=10, parallelism={("hudi", "compaction"): 1})
    choice = pick(an_operation(1, table=1), an_operation(2, table=2), limits=limits)
    assert went(choice) == [1]
    assert "parallelism of 1" in choice.wait[2]


def test_owners_with_their_shares_do_not_wait_for_each_other() -> None:
    waiting = [an_operation(n, table=n, owner=f"owner-{n % 2}") for n in range(1, 9)]
    assert len(went(pick(*waiting, limits=Limits(running=8, owner_share=0.25)))) == 8


def test_an_owner_keeps_to_its_share_if_others_may_wait_behind_the_candidates() -> None:
    waiting = [Candidate(operation=an_operation(n, table=n), format=Format("hudi")) for n in range(1, 5)]
    choice = choose(waiting, (), Limits(running=4), NOON, has_more_owners=True)
    assert went(choice) == [1, 2]


def test_every_limit_that_is_reached_is_closed_and_no_other() -> None:
    limits = Limits(
        running=4, queues={"slow": 1, "fast": 2}, parallelism={("hudi", "compaction"): 2, ("hudi", "clean"): 1},
        engines={"spark": 2, "other": 0}, engines_off={"away": "it is off"},
    )  # fmt: skip
    running = (a_busy(table=1, queue="slow", owner="a"), a_busy(table=2, queue="fast", owner="a"))

    closed = Usage([replace(one, engine="spark") for one in running], limits).closed

    assert not closed.is_full
    assert (set(closed.queues), set(closed.owners), set(closed.pairs)) == ({"slow"}, {"a"}, {("hudi", "compaction")})
    assert (set(closed.engines), set(closed.slots)) == ({"spark", "other", "away"}, {"1:table", "2:table"})
