# SPDX-License-Identifier: Apache-2.0
"""Races: eight processes reach for the same rows at once, and each row has exactly one winner."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

import pytest

from lakehand.core.ports import OperationFilter
from lakehand.domain.notifications import InboxRow
from lakehand.domain.tables import TableId
from lakehand.store import SqlStore
from lakehand.store.migrate import head
from tests.store import racers as race
from tests.store.conftest import RACERS
from tests.store.given import CLEAN, CLUSTERING, COMPACTION, NOON, inbox_row, process, queue_of, spec, table_count

pytestmark = pytest.mark.server
T = TypeVar("T")
CLAIMS = 2000
TIMEOUT = 240


def run(racers: ProcessPoolExecutor, task: Callable[[str, int], T], url: str) -> list[T]:
    futures = [racers.submit(task, url, name) for name in range(RACERS)]
    return [future.result(TIMEOUT) for future in futures]


def given_plans(count: int, tables: int) -> list[InboxRow]:
    """Plans that may all run at once: each has a conflict class of its own."""
    return [
        inbox_row(spec(f"/w/t{n % tables}", db_name=""), str(n), process=process(conflict_class=str(n)))
        for n in range(count)
    ]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_two_thousand_operations_are_claimed_exactly_once(
    store: SqlStore, migrated_url: str, racers: ProcessPoolExecutor
) -> None:
    store.inbox.store(given_plans(CLAIMS, tables=100), [], now=NOON)

    won = run(racers, race.claim_operations, migrated_url)

    claims = [claim for each, _ in won for claim in each]
    assert len(claims) == CLAIMS
    assert len(set(claims)) == CLAIMS
    assert sum(lost for _, lost in won) > 0, "nobody raced"
    assert queue_of(store, now=NOON, limit=10).candidates == []


def test_every_end_is_counted_once_however_many_end_at_once(
    store: SqlStore, migrated_url: str, racers: ProcessPoolExecutor
) -> None:
    store.inbox.store(given_plans(CLAIMS // 5, tables=10), [], now=NOON)
    run(racers, race.claim_operations, migrated_url)

    ended = run(racers, race.end_operations, migrated_url)

    assert sum(ended) == CLAIMS // 5
    assert [one.operations for one in store.fleet.counts(since=NOON)] == [CLAIMS // 5]


def test_due_schedules_are_claimed_exactly_once(
    store: SqlStore, migrated_url: str, racers: ProcessPoolExecutor
) -> None:
    wanted = frozenset({COMPACTION, CLUSTERING, CLEAN})
    tables = [InboxRow(table=spec(f"/w/t{n}", db_name="", action_types=wanted)) for n in range(300)]
    store.inbox.store(tables, [], now=NOON)

    won = [schedule for each in run(racers, race.claim_schedules, migrated_url) for schedule in each]

    assert len(won) == len(set(won)) == 900


def test_due_probes_are_claimed_exactly_once(store: SqlStore, migrated_url: str, racers: ProcessPoolExecutor) -> None:
    store.inbox.store([InboxRow(table=spec(f"/w/t{n}", db_name="")) for n in range(300)], [], now=NOON)

    won = [table for each in run(racers, race.claim_probes, migrated_url) for table in each]

    assert len(won) == len(set(won)) == 300


def test_the_same_notifications_from_everywhere_are_stored_once(
    store: SqlStore, migrated_url: str, racers: ProcessPoolExecutor
) -> None:
    answers = run(racers, race.notify, migrated_url)

    operations = store.operations.list(OperationFilter(), limit=500, cursor=None).items
    assert all(answer == answers[0] for answer in answers)
    assert table_count(store) == 60
    assert len({(o.table, o.instant) for o in operations}) == len(operations) == 120
    assert {s.wakes for n in answers[0] for s in store.schedules.of_table(TableId(n))} == {1}
    every = {f"racer={name}" for name in range(RACERS)}
    assert all(set(store.partitions.changed(TableId(n)).names) == every for n in answers[0])


def test_instances_that_start_together_migrate_once(empty_url: str, racers: ProcessPoolExecutor) -> None:
    assert run(racers, race.migrate, empty_url) == [head()] * RACERS
