# SPDX-License-Identifier: Apache-2.0
"""The partitions that events named: merged until a decision has used them, and no later event is lost."""

from collections.abc import Sequence
from dataclasses import replace

from lakehand.core.ports import Store
from lakehand.domain.notifications import MOST_NAMES, ChangedPartitions
from lakehand.domain.schedules import EvaluationResult
from lakehand.domain.tables import Table
from tests.store.given import HOUR, NOON, a_table, inbox_row


def notify(store: Store, table: Table, *batches: Sequence[str]) -> None:
    rows = [replace(inbox_row(table.spec, process=None), partitions=names) for names in batches]
    store.inbox.store(rows, [], now=NOON)


def use(store: Store, table: Table, seen: ChangedPartitions) -> None:
    """What a decision that has seen this and led to an operation stores."""
    [schedule] = store.schedules.of_table(table.id)
    result = EvaluationResult(
        schedule=schedule, next_due=NOON + HOUR, reason="", started=True, used_partitions=seen.version
    )
    store.schedules.finish([result], now=NOON)


def test_names_of_events_are_merged(store: Store) -> None:
    table, other = a_table(store), a_table(store, "/w/other")
    assert store.partitions.changed(table.id) == ChangedPartitions()

    notify(store, table, ["day=1", "day=ü"], ["day=2"], [])
    notify(store, table, ["day=1", "day=3"])

    assert store.partitions.changed(table.id).names == ("day=1", "day=ü", "day=2", "day=3")
    assert store.partitions.changed(other.id) == ChangedPartitions()


def test_a_decision_removes_what_it_has_seen(store: Store) -> None:
    table = a_table(store)
    notify(store, table, ["day=1"])

    use(store, table, store.partitions.changed(table.id))

    assert store.partitions.changed(table.id).names == ()
    notify(store, table, ["day=2"])
    assert store.partitions.changed(table.id).names == ("day=2",)


def test_an_event_after_the_decision_has_read_is_not_lost(store: Store) -> None:
    table = a_table(store)
    notify(store, table, ["day=1"])
    seen = store.partitions.changed(table.id)

    notify(store, table, ["day=1"])
    use(store, table, seen)

    assert store.partitions.changed(table.id).names == ("day=1",)


def test_a_second_decision_that_saw_the_same_removes_nothing_newer(store: Store) -> None:
    table = a_table(store)
    notify(store, table, ["day=1"])
    seen = store.partitions.changed(table.id)
    use(store, table, seen)
    notify(store, table, ["day=1"])

    use(store, table, seen)

    assert store.partitions.changed(table.id).names == ("day=1",)


def test_too_many_names_are_kept_as_many_until_a_decision(store: Store) -> None:
    table = a_table(store)
    notify(store, table, *([f"day={n}"] for n in range(MOST_NAMES + 1)))
    notify(store, table, ["day=1"])
    changed = store.partitions.changed(table.id)
    assert (changed.names, changed.is_many) == ((), True)

    use(store, table, changed)

    assert not store.partitions.changed(table.id).is_many
