# SPDX-License-Identifier: Apache-2.0
"""The stream of events: nothing is lost and nothing comes twice, in whatever order transactions end."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from itertools import islice
from threading import Event as Signal
from threading import Thread

import pytest
import uvicorn

from lakehand.client import Event as ClientEvent
from lakehand.client import LakehandClient, Retries, Unavailable
from lakehand.client.event_calls import EventWindow
from lakehand.domain.events import Event
from lakehand.store import SqlStore
from tests.client.conftest import MakeClient
from tests.kit.ports import deaf_port, quiet_port
from tests.kit.quick_server import QuickServer, in_thread
from tests.rest.parts import LOCATION, app_over, context_over

QUICK = Retries(attempts=2, first=0.001, longest=0.01)


def add(store: SqlStore, *messages: str, seconds_ago: float = 0.0, fingerprint: str | None = None) -> None:
    events = [Event(kind="test", message=message, fingerprint=fingerprint) for message in messages]
    store.events.add(events, now=store.clock.now() - timedelta(seconds=seconds_ago))


def messages(stream: Iterator[ClientEvent], count: int) -> list[str]:
    return [event.message for event in islice(stream, count)]


def newest(client: LakehandClient) -> ClientEvent:
    return next(client.events.list(limit=1))


def test_events_come_as_they_are_added_oldest_first(client: LakehandClient, store: SqlStore) -> None:
    add(store, "before")
    stream = client.events.stream(after=newest(client), poll=0.01)

    add(store, "one", "two")
    assert messages(stream, 2) == ["one", "two"]
    add(store, "three")
    add(store, "four")
    assert messages(stream, 2) == ["three", "four"]


def test_without_a_beginning_it_begins_now(client: LakehandClient, store: SqlStore) -> None:
    add(store, "before")
    is_over = Signal()

    def keep_adding() -> None:
        number = 0
        while not is_over.wait(0.01):
            number += 1
            add(store, f"{number}")

    thread = Thread(target=keep_adding)
    thread.start()
    try:
        found = messages(client.events.stream(poll=0.01), 20)
    finally:
        is_over.set()
        thread.join()

    first = int(found[0])
    assert found == [str(first + at) for at in range(20)]


def test_in_an_empty_store_everything_that_comes_is_new(client: LakehandClient, store: SqlStore) -> None:
    window = EventWindow([], None)
    assert window.take([]) == []
    assert window.start < store.clock.now() - timedelta(days=365), "the next reading goes back to the beginning"
    add(store, "long ago", seconds_ago=600)
    add(store, "now")

    assert [event.message for event in window.take(client.events.list())] == ["long ago", "now"]


def test_an_event_that_is_stored_late_is_not_lost(client: LakehandClient, store: SqlStore) -> None:
    add(store, "before", seconds_ago=20)
    stream = client.events.stream(after=newest(client), poll=0.01)
    add(store, "newer")
    assert messages(stream, 1) == ["newer"]

    add(store, "its transaction took longer", seconds_ago=10)
    add(store, "newest")
    assert messages(stream, 2) == ["its transaction took longer", "newest"]


def test_a_counted_event_comes_again_when_it_happens_again(client: LakehandClient, store: SqlStore) -> None:
    add(store, "before")
    stream = client.events.stream(after=newest(client), poll=0.01)

    add(store, "same", fingerprint="same")
    assert messages(stream, 1) == ["same"]
    add(store, "same", fingerprint="same")
    add(store, "same", fingerprint="same")
    add(store, "other")
    found = list(islice(stream, 2))
    assert [(event.message, event.times) for event in found] == [("same", 3), ("other", 1)]


def test_more_events_than_a_page_holds_all_come_in_order(
    client: LakehandClient, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehand.client.event_calls.LARGE_PAGE", 3)
    add(store, "before")
    stream = client.events.stream(after=newest(client), poll=0.01)

    added = [f"{number}" for number in range(20)]
    for message in added:
        add(store, message)
    assert messages(stream, 20) == added


def test_a_stream_about_one_table_has_only_its_events(client: LakehandClient) -> None:
    client.tables.add(LOCATION)
    stream = client.events.stream(after=newest(client), table="trips", poll=0.01)

    client.tables.add("/data/other")
    client.tables.pause("trips")

    assert [event.table for event in islice(stream, 1)] == [1]


def serving_at(store: SqlStore, port: int) -> AbstractContextManager[int]:
    """The service at a port that is known before, so that another one can take its place."""
    config = uvicorn.Config(app_over(context_over(store)), port=port, log_config=None, ws="none")
    return in_thread(QuickServer(config))


def test_a_restart_of_the_service_loses_and_repeats_nothing(make_client: MakeClient, store: SqlStore) -> None:
    port = quiet_port()
    client = make_client(f"http://127.0.0.1:{port}", retries=QUICK)
    with serving_at(store, port):
        add(store, "before")
        stream = client.events.stream(after=newest(client), poll=0.01)
        add(store, "first service")
        assert messages(stream, 1) == ["first service"]

    add(store, "while it is away")
    missed = Signal()  # set when the stream has noticed that the service is away

    def note_outage() -> float:
        missed.set()
        return 0.0

    with ExitStack() as stack:

        def restart() -> None:
            missed.wait(60)
            stack.enter_context(serving_at(store, port))
            add(store, "second service")

        thread = Thread(target=restart)
        thread.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lakehand.client.event_calls.monotonic", note_outage)
            found = messages(stream, 2)
        thread.join()

    assert missed.is_set()
    assert found == ["while it is away", "second service"]


def test_a_service_that_stays_away_ends_the_stream(make_client: MakeClient) -> None:
    with deaf_port() as port:
        client = make_client(f"http://127.0.0.1:{port}", retries=QUICK)

        with pytest.raises(Unavailable, match="no service answers"):
            next(client.events.stream(poll=0.001, outage=0.02))
