# SPDX-License-Identifier: Apache-2.0
"""The one follower of changes: what a reading finds, and who is told of it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from queue import Queue
from typing import Any

import pytest
from sqlalchemy import insert, update

from lakehand.api.operations import OperationRequest
from lakehand.core.feed import FLEET, ChangeFeed, Changes, Reader, Topic
from lakehand.domain.errors import Unavailable
from lakehand.domain.events import Event
from lakehand.domain.operations import Operation, Status
from lakehand.domain.tables import Table
from lakehand.store.events import SqlEvents, to_row
from lakehand.store.schema import event as event_table
from lakehand.store.schema import tbl
from lakehand.store.tables import SqlTables
from tests.core.waiting import TIMEOUT, eventually
from tests.core.world import World


@pytest.fixture
def reader(store: Any) -> Reader:
    """One that has read all that is there."""
    reader = Reader(store=store, gap_wait=60.0)
    reader.read()
    return reader


def add_event(store: Any, message: str, **more: Any) -> None:
    store.events.add([Event(kind="test.event", message=message, **more)], now=store.clock.now())


def add_events(store: Any, count: int) -> None:
    for number in range(count):
        add_event(store, str(number))


def insert_at(store: Any, number: int) -> None:
    row = to_row(Event(kind="test.event", message=str(number)), 1) | {"event_id": number}
    store.database.write(lambda tx: tx.execute(insert(event_table), row))


def ids_of(changes: Changes) -> list[int]:
    return [one.id for one in changes.events]


def submit(world: World, table: Table) -> Operation:
    return world.operations.add(table, OperationRequest(action="compaction"), by="ann")[0]


def test_a_reading_begins_at_the_newest_event(store: Any) -> None:
    insert_at(store, 7)
    reader = Reader(store=store, gap_wait=60.0)

    first = reader.read()
    insert_at(store, 8)

    assert (first.is_first, ids_of(first)) == (True, [])
    second = reader.read()
    assert (second.is_first, ids_of(second)) == (False, [8])
    assert FLEET in second.topics


def test_nothing_has_changed_when_nothing_happened(world: World, reader: Reader) -> None:
    table = world.add_table()
    submit(world, table)
    reader.read([Topic("table", table.id)])

    assert not reader.read([Topic("table", table.id)]).topics


def test_an_id_that_is_missing_is_looked_for_until_it_never_comes(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("lakehand.core.feed.time.monotonic", lambda: clock[0])
    insert_at(store, 10)
    reader = Reader(store=store, gap_wait=60.0)
    reader.read()
    insert_at(store, 13)
    assert ids_of(reader.read()) == [13]
    clock[0] = 59.0
    assert ids_of(reader.read()) == []
    insert_at(store, 11)
    assert ids_of(reader.read()) == [11]
    clock[0] = 61.0
    assert reader.read().position.base == 13
    insert_at(store, 12)

    assert ids_of(reader.read()) == []


def test_an_event_that_happens_again_is_a_change(world: World, reader: Reader) -> None:
    table = world.add_table()
    for _ in range(2):
        add_event(world.store, "equal", fingerprint="equal", table=table.id)
        assert {FLEET, Topic("table", table.id)} <= reader.read().topics
        assert not reader.read().topics
    add_event(world.store, "equal", fingerprint="equal", table=table.id)

    assert ids_of(reader.read()) == []  # those who follow events had it


def test_a_change_of_a_table_without_an_event_is_one_for_who_watches_it(
    world: World, store: Any, reader: Reader
) -> None:
    table, other = world.add_table(), world.add_table("orders")
    both = [Topic("table", table.id), Topic("table", other.id)]
    reader.read(both)
    write = update(tbl).where(tbl.c.id == table.id)

    store.database.write(lambda tx: tx.execute(write.values(priority=7)))
    assert reader.read(both).topics == {Topic("table", table.id)}
    store.database.write(lambda tx: tx.execute(write.values(priority=8)))
    assert not reader.read([Topic("table", other.id)]).topics


def test_an_operation_that_a_follower_was_shown_is_read_once_again(world: World, reader: Reader) -> None:
    """It may have ended after it was read for the follower, and before the feed knew of it."""
    shown = submit(world, world.add_table())
    ended = world.operations.end(shown.id, by="ann")
    reader.position = reader.newest()  # the events of both were read
    assert not reader.read().operations

    reader.note_shown([shown])

    assert [one for one, _ in reader.read().operations] == [ended]
    reader.note_shown([shown])
    assert not reader.unread


def test_an_operation_that_is_watched_is_read_whatever_happens(world: World, reader: Reader) -> None:
    """The row of one that waits changes without an event: nobody else wants to know."""
    waiting = submit(world, world.add_table())
    reader.read()
    claimed = world.store.operations.claim(waiting, holder=world.holder, time_to_live=timedelta(minutes=1))
    assert claimed is not None
    changed = world.store.operations.save(replace(claimed, reason="changed"), now=world.store.clock.now())

    assert not reader.read().operations
    assert [one.reason for one, _ in reader.read([Topic("operation", waiting.id)]).operations] == [changed.reason]
    assert not reader.read([Topic("operation", waiting.id)]).operations


def test_an_operation_that_runs_no_more_is_read_though_no_event_says_so(world: World, reader: Reader) -> None:
    operation = submit(world, world.add_table())
    claimed = world.store.operations.claim(operation, holder=world.holder, time_to_live=timedelta(minutes=1))
    assert claimed is not None
    for status in (Status.SUBMITTED, Status.RUNNING, Status.SUCCEEDED):
        now = world.store.clock.now()
        claimed = world.store.operations.save(claimed.moved_to(status, at=now, reason="test"), now=now)
        assert [one.status for one, _ in reader.read().operations] == [status]


def test_a_reading_that_fails_is_repeated(world: World, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = submit(world, world.add_table())
    with monkeypatch.context() as broken:
        broken.setattr(SqlTables, "by_ids", fail)
        with pytest.raises(Unavailable):
            reader.read()

    again = reader.read()

    assert [one for one, _ in again.operations] == [operation]
    assert {one.event.operation for one in again.events} == {None, operation.id}


def fail(*_: object) -> Any:
    raise Unavailable("the database is away")


@contextmanager
def opened(store: Any) -> Iterator[ChangeFeed]:
    feed = ChangeFeed(store=store, pace=0.01)
    yield feed
    feed.close(timeout=TIMEOUT)
    assert not feed.is_reading


def test_one_thread_reads_for_all_while_somebody_follows(store: Any) -> None:
    with opened(store) as feed:
        followers: list[Queue[Changes]] = [Queue() for _ in range(20)]
        assert feed.join(followers[0].put) is None
        assert followers[0].get(timeout=TIMEOUT).is_first
        assert None not in [feed.join(one.put) for one in followers[1:]]
        add_event(store, "one")
        for one in followers:
            assert [stored.event.message for stored in one.get(timeout=TIMEOUT).events] == ["one"]
        assert len([one for one in threading.enumerate() if one.name == "change-feed"]) == 1

        for one in followers:
            feed.leave(one.put)
        assert eventually(lambda: not feed.is_reading)
        add_event(store, "nobody follows")
        again: Queue[Changes] = Queue()
        assert feed.join(again.put) is None
        first = again.get(timeout=TIMEOUT)
        assert (first.is_first, list(first.events)) == (True, [])


def test_who_joins_later_misses_nothing_after_its_position(store: Any) -> None:
    """Two writers add events while followers come and go: each one finds all that come after its position."""
    with opened(store) as feed:
        first: Queue[Changes] = Queue()
        feed.join(first.put)
        first.get(timeout=TIMEOUT)
        writers = [threading.Thread(target=add_events, args=(store, 60)) for _ in range(2)]
        last = store.events.last_id() + 120
        for writer in writers:
            writer.start()
        for _ in range(10):
            own: Queue[Changes] = Queue()
            position = feed.join(own.put)
            assert position is not None
            wanted = set(range(position.highest + 1, min(position.highest + 6, last + 1))) | set(position.missing())
            while wanted:
                wanted -= set(ids_of(own.get(timeout=TIMEOUT)))
            feed.leave(own.put)
        for writer in writers:
            writer.join()


def test_an_error_is_logged_and_the_reading_goes_on(
    store: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(store) as feed:
        own: Queue[Changes] = Queue()
        with monkeypatch.context() as broken:
            broken.setattr(SqlEvents, "last_id", fail)
            assert feed.join(own.put) is None
            assert eventually(lambda: len(caplog.records) > 1)
        assert own.get(timeout=TIMEOUT).is_first
        assert {one.getMessage() for one in caplog.records} == {
            "open pages and streams are not kept up to date right now"
        }


def test_a_follower_whose_event_loop_has_ended_is_left(store: Any) -> None:
    loop, own = asyncio.new_event_loop(), Queue[Changes]()
    loop.close()
    with opened(store) as feed:

        def follow(changes: Changes) -> None:
            loop.call_soon_threadsafe(own.put, changes)

        feed.join(follow)
        assert eventually(lambda: feed.watchers == 0)
        feed.join(own.put)
        feed.join(follow)
        add_event(store, "one")
        own.get(timeout=TIMEOUT)
        assert eventually(lambda: feed.watchers == 1)


def test_the_end_is_told_to_all_and_nobody_reads_after_it(store: Any) -> None:
    with opened(store) as feed:
        own: Queue[Changes] = Queue()
        feed.join(own.put)
        own.get(timeout=TIMEOUT)

        feed.close()

        assert not own.get(timeout=TIMEOUT).topics
        assert eventually(lambda: not feed.is_reading)
        assert feed.join(own.put) is None
        assert not feed.is_reading
