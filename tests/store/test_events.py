# SPDX-License-Identifier: Apache-2.0
"""Events: newest first, counted where they repeat, removed by age."""

import pytest

from lakehand.core.ports import Store
from lakehand.domain.errors import Invalid
from lakehand.domain.events import Event
from lakehand.domain.operations import Status
from tests.store.given import HOUR, MINUTE, NOON, a_finished_operation, a_running_operation, a_table


def record(store: Store, *messages: str, at: int = 0, **values: object) -> None:
    events = [Event(kind="test.said", message=m, **values) for m in messages]  # type: ignore[arg-type]
    store.events.add(events, now=NOON + at * MINUTE)


def messages(store: Store, **values: object) -> list[str]:
    return [e.event.message for e in store.events.list(**values).items]  # type: ignore[arg-type]


def test_an_event_comes_back_as_it_was_stored(store: Store) -> None:
    table = a_table(store)
    reported = Event(
        kind="test.said", message="ü 🐘 %s", table=table.id, detail={"a": [1, {"b": None}]}, fingerprint="f"
    )

    store.events.add([reported], now=NOON)

    [stored] = store.events.list().items
    assert (stored.event, stored.at, stored.first_at, stored.times) == (reported, NOON, NOON, 1)


def test_the_newest_come_first_page_by_page(store: Store) -> None:
    for n in range(3):
        record(store, f"{n}a", f"{n}b", at=n)

    first = store.events.list(limit=4)
    record(store, "newer", at=9)
    second = store.events.list(limit=4, cursor=first.next)

    assert [e.event.message for e in (*first.items, *second.items)] == ["2b", "2a", "1b", "1a", "0b", "0a"]
    assert second.next is None
    with pytest.raises(Invalid):
        store.events.list(cursor="MQ")


def test_repeats_are_one_row_with_a_count_and_the_last_word(store: Store) -> None:
    record(store, "first", fingerprint="same")
    record(store, "other", at=1)
    record(store, "second", "third", at=2, fingerprint="same")

    newest, older = store.events.list().items

    assert (newest.event.message, newest.times) == ("third", 3)
    assert (newest.first_at, newest.at) == (NOON, NOON + 2 * MINUTE)
    assert older.event.message == "other"


@pytest.mark.parametrize("fingerprint", ["x" * 4000, "ü" * 300, "\ud800"])
def test_any_fingerprint_will_do(store: Store, fingerprint: str) -> None:
    record(store, "one", fingerprint=fingerprint)
    record(store, "two", fingerprint=fingerprint)
    record(store, "else", fingerprint=fingerprint + "!")

    assert sorted((e.event.message, e.times) for e in store.events.list().items) == [("else", 1), ("two", 2)]


def test_fingerprints_that_differ_in_case_differ(store: Store) -> None:
    record(store, "small", fingerprint="a")
    record(store, "tall", fingerprint="A")

    assert len(store.events.list().items) == 2


def test_any_text_can_be_stored(store: Store) -> None:
    record(store, "zero \x00, half \ud800, " + "long" * 50_000)

    [message] = messages(store)
    assert message.startswith("zero \N{REPLACEMENT CHARACTER}, half ?, long")
    assert len(message) > 200_000


def test_events_are_found_by_table_operation_and_kind(store: Store) -> None:
    table = a_table(store)
    operation = a_running_operation(store, table)
    store.events.add(
        [
            Event(kind="operation.started", message="both", table=table.id, operation=operation.id),
            Event(kind="operation.x%", message="table", table=table.id),
            Event(kind="operations", message="none"),
        ],
        now=NOON,
    )

    assert messages(store, table=table.id) == ["table", "both"]
    assert messages(store, operation=operation.id) == ["both"]
    assert messages(store, kind="operation.") == ["table", "both"]
    assert messages(store, kind="operation.started", table=table.id) == ["both"]
    assert messages(store, kind="operation") == []
    assert messages(store, kind="%.") == []


def test_old_events_go_in_bounded_steps_the_oldest_first(store: Store) -> None:
    for n in range(5):
        record(store, str(n), at=n)

    assert store.events.remove_before(NOON + 4 * MINUTE, limit=3) == 3
    assert messages(store) == ["4", "3"]
    assert store.events.remove_before(NOON + 4 * MINUTE, limit=3) == 1
    assert store.events.remove_before(NOON + 4 * MINUTE, limit=3) == 0


def test_a_repeated_event_is_as_old_as_its_last_time(store: Store) -> None:
    record(store, "again", fingerprint="f")
    record(store, "again", at=2, fingerprint="f")

    assert store.events.remove_before(NOON + MINUTE, limit=9) == 0


def test_what_belongs_to_an_unfinished_operation_is_kept(store: Store) -> None:
    running = a_running_operation(store, a_table(store, "/w/1"))
    done = a_finished_operation(store, a_table(store, "/w/2"), status=Status.SUCCEEDED)
    record(store, "needed", operation=running.id)
    record(store, "old", operation=done.id)

    assert store.events.remove_before(NOON + HOUR, limit=9) == 1
    assert messages(store) == ["needed"]


def test_storing_no_events_is_allowed(store: Store) -> None:
    store.events.add([], now=NOON)

    assert messages(store) == []


def test_events_after_an_id_come_lowest_first(store: Store) -> None:
    assert store.events.last_id() == 0
    record(store, "a", "b", "c")
    ids = sorted(e.id for e in store.events.list().items)

    after = store.events.after(ids[0], limit=1)

    assert [e.event.message for e in after] == ["b"]
    assert [e.id for e in store.events.after(0, limit=10)] == ids
    assert store.events.after(ids[-1], limit=10) == []
    assert store.events.last_id() == ids[-1]


def test_events_are_found_by_their_ids(store: Store) -> None:
    record(store, "a", "b", "c")
    ids = sorted(e.id for e in store.events.list().items)

    found = store.events.by_ids({ids[2], ids[0], ids[2] + 100})

    assert [e.id for e in found] == [ids[0], ids[2]]
    assert store.events.by_ids([]) == []
