# SPDX-License-Identifier: Apache-2.0
"""Streams while things change: nothing lost, nothing repeated, few threads, an end with the service."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from typing import Any

import grpc
import pytest
from sqlalchemy import insert

from lakehand.api.operations import OperationRequest
from lakehand.domain.access import Role, TokenId
from lakehand.domain.events import Event
from lakehand.domain.operations import InstanceId, Operation, OperationId, Status
from lakehand.rest import ApiContext
from lakehand.rpc.generated import operation_pb2, tables_pb2
from lakehand.rpc.generated.events_pb2 import WatchEventsRequest
from lakehand.rpc.generated.operations_pb2 import SubmitOperationRequest, WatchOperationsRequest
from lakehand.store import SqlStore
from lakehand.store.events import to_row
from lakehand.store.schema import event as event_table
from tests.kit.polling import wait_for
from tests.rest.parts import ROOT, made_token, with_security
from tests.rpc.parts import QUICK, TIMEOUT, RpcClient, bearer, failure_of, rpc_context, rpc_serving

MINUTE = timedelta(minutes=1)
PENDING = operation_pb2.OPERATION_STATUS_PENDING
SUBMITTED = operation_pb2.OPERATION_STATUS_SUBMITTED
RUNNING = operation_pb2.OPERATION_STATUS_RUNNING
SUCCEEDED = operation_pb2.OPERATION_STATUS_SUCCEEDED
CANCELED = operation_pb2.OPERATION_STATUS_CANCELED


def add_events(store: SqlStore, *messages: str) -> None:
    for message in messages:
        store.events.add([Event(kind="test.event", message=message)], now=store.clock.now())


def add_table(client: RpcClient, name: str = "trips", **fields: Any) -> int:
    request = tables_pb2.AddTableRequest(location=f"/data/{name}", action_types=["compaction"], **fields)
    return client.tables.AddTable(request).table.id


def submit(client: RpcClient, table: int) -> int:
    request = SubmitOperationRequest(table=table, action="compaction")
    return client.operations.SubmitOperation(request).operation.id


@contextmanager
def watching(stub: Any, request: Any, **more: Any) -> Iterator[Any]:
    """A stream that nothing can pass unseen any more."""
    stream = stub(request, timeout=TIMEOUT, **more)
    stream.initial_metadata()
    yield stream
    stream.cancel()


def take(stream: Any, count: int) -> list[str]:
    return [next(stream).event.message for _ in range(count)]


def test_events_from_now_on_come_once_and_in_order(client: RpcClient, store: SqlStore) -> None:
    add_events(store, "before")
    with watching(client.events.WatchEvents, WatchEventsRequest(kind="test.")) as stream:
        wanted = [f"event {number}" for number in range(50)]
        add_events(store, *wanted)

        assert take(stream, 50) == wanted
        add_events(store, "last")
        assert take(stream, 1) == ["last"]


def test_events_from_an_id_on_begin_with_those_that_are_stored(client: RpcClient, store: SqlStore) -> None:
    add_events(store, "a", "b", "c")
    first = store.events.after(0, limit=1)[0].id
    with watching(client.events.WatchEvents, WatchEventsRequest(after_id=first, kind="test.event")) as stream:
        assert take(stream, 2) == ["b", "c"]
        add_events(store, "d")
        assert take(stream, 1) == ["d"]


def test_filters_of_events_hold(client: RpcClient, store: SqlStore) -> None:
    table, other = add_table(client), add_table(client, "orders")
    with watching(client.events.WatchEvents, WatchEventsRequest(table=table, kind="table.changed")) as stream:
        client.tables.PauseTable(tables_pb2.PauseTableRequest(id=other))
        client.tables.EvaluateTable(tables_pb2.EvaluateTableRequest(id=table))
        client.tables.PauseTable(tables_pb2.PauseTableRequest(id=table))

        found = next(stream).event
        assert (found.table, found.kind, found.detail["by"]) == (table, "table.changed", "anonymous")


def test_a_stream_that_goes_on_at_a_position_loses_and_repeats_nothing(client: RpcClient, store: SqlStore) -> None:
    """Three writers add events while a client reads three at a time, each time over a new stream."""
    with watching(client.events.WatchEvents, WatchEventsRequest()) as stream:
        add_events(store, "start")
        position = next(stream).position
    wanted = {f"{writer}-{number}" for writer in range(3) for number in range(30)}
    seen: list[str] = []

    with ThreadPoolExecutor(3) as writers:
        for writer in range(3):
            writers.submit(add_events, store, *(f"{writer}-{number}" for number in range(30)))
        while len(seen) < len(wanted):
            with watching(client.events.WatchEvents, WatchEventsRequest(position=position)) as stream:
                for _ in range(min(3, len(wanted) - len(seen))):
                    message = next(stream)
                    seen.append(message.event.message)
                    position = message.position

    assert sorted(seen) == sorted(wanted)


def insert_at(store: SqlStore, number: int, message: str) -> None:
    row = to_row(Event(kind="test.event", message=message), 1) | {"event_id": number}
    store.database.write(lambda tx: tx.execute(insert(event_table), row))


def test_an_event_that_becomes_visible_late_is_not_lost(client: RpcClient, store: SqlStore) -> None:
    """On PostgreSQL and MySQL a transaction with a lower id may end later."""
    insert_at(store, 10, "ten")
    with watching(client.events.WatchEvents, WatchEventsRequest()) as stream:
        insert_at(store, 12, "twelve")
        first = next(stream)
        insert_at(store, 11, "eleven, late")
        late = next(stream)
        insert_at(store, 9, "nine, later still")
        last = next(stream)

    assert [one.event.id for one in (first, late, last)] == [12, 11, 9]
    with watching(client.events.WatchEvents, WatchEventsRequest(position=first.position)) as stream:
        assert sorted(next(stream).event.id for _ in range(2)) == [9, 11]
    with watching(client.events.WatchEvents, WatchEventsRequest(position=last.position)) as stream:
        insert_at(store, 13, "thirteen")
        assert next(stream).event.id == 13


def test_an_operation_is_watched_until_it_has_ended(client: RpcClient, store: SqlStore) -> None:
    number = submit(client, add_table(client))
    with watching(client.operations.WatchOperations, WatchOperationsRequest(id=number)) as stream:
        statuses = [next(stream).operation.status]
        operation = claimed(store, number)
        for status, shown in ((Status.SUBMITTED, SUBMITTED), (Status.RUNNING, RUNNING), (Status.SUCCEEDED, SUCCEEDED)):
            operation = moved(store, operation, status)
            while statuses[-1] != shown:  # the claim of a pending operation may be a change of its own
                statuses.append(next(stream).operation.status)

        assert list(stream) == []  # it ends by itself
    assert [status for status, _ in groupby(statuses)] == [PENDING, SUBMITTED, RUNNING, SUCCEEDED]


def claimed(store: SqlStore, id: int) -> Operation:
    operation = store.operations.get(OperationId(id))
    found = store.operations.claim(operation, holder=InstanceId("me"), time_to_live=MINUTE)
    assert found is not None
    return found


def moved(store: SqlStore, operation: Operation, status: Status) -> Operation:
    now = store.clock.now()
    return store.operations.save(operation.moved_to(status, at=now, reason="test"), now=now)


def test_an_operation_that_has_ended_already_is_one_message(client: RpcClient, api: ApiContext) -> None:
    number = submit(client, add_table(client))
    api.services.operations.cancel(ROOT, OperationId(number))

    stream = client.operations.WatchOperations(WatchOperationsRequest(id=number), timeout=TIMEOUT)

    assert [message.operation.status for message in stream] == [CANCELED]


def test_the_progress_of_a_running_operation_is_a_change_and_its_lease_is_none(
    client: RpcClient, store: SqlStore
) -> None:
    number = submit(client, add_table(client))
    operation = moved(store, claimed(store, number), Status.SUBMITTED)
    with watching(client.operations.WatchOperations, WatchOperationsRequest(id=number)) as stream:
        assert next(stream).operation.status == SUBMITTED
        assert operation.lease is not None
        store.operations.renew({operation.id: operation.lease.token}, now=store.clock.now(), time_to_live=2 * MINUTE)
        feed = client.server._calls.context.feed
        renewed_at = feed.readings
        wait_for(lambda: feed.readings > renewed_at + 1, "a reading after the renewal", 30)
        now = store.clock.now()
        store.operations.save(replace(operation, progress={"phase": "rewriting"}, updated_at=now), now=now)

        assert next(stream).operation.progress["phase"] == "rewriting"


def test_all_operations_that_match_are_watched(client: RpcClient, api: ApiContext) -> None:
    table, other = add_table(client, owner="ann"), add_table(client, "orders", owner="bo")
    first = submit(client, table)
    submit(client, other)
    with watching(client.operations.WatchOperations, WatchOperationsRequest(owner="ann")) as stream:
        assert next(stream).operation.id == first
        submit(client, other)
        second = submit(client, table)
        assert next(stream).operation.id == second

        client.tables.ClearTable(tables_pb2.ClearTableRequest(id=table))  # one event for both of them

        ended = {(message.operation.id, message.operation.status) for message in (next(stream), next(stream))}
        assert ended == {(first, CANCELED), (second, CANCELED)}


def test_only_the_wanted_statuses_are_sent(client: RpcClient, api: ApiContext) -> None:
    table = add_table(client)
    with watching(
        client.operations.WatchOperations, WatchOperationsRequest(table=table, statuses=[CANCELED])
    ) as stream:
        number = submit(client, table)
        api.services.operations.cancel(ROOT, OperationId(number))

        found = next(stream).operation
        assert (found.id, found.status) == (number, CANCELED)


def test_two_hundred_watchers_cost_few_threads_and_one_reader(
    client: RpcClient, api: ApiContext, store: SqlStore
) -> None:
    table = add_table(client)
    streams: list[Any] = [
        client.events.WatchEvents(WatchEventsRequest(kind="test."), timeout=TIMEOUT) for _ in range(100)
    ]
    streams += [
        client.operations.WatchOperations(WatchOperationsRequest(table=table), timeout=TIMEOUT) for _ in range(100)
    ]
    for stream in streams:
        stream.initial_metadata()
    calls = client.server._calls
    assert (calls.open_streams, calls.context.feed.watchers) == (200, 200)
    server_threads = [thread for thread in threading.enumerate() if thread.name.startswith("grpc")]
    assert len(server_threads) <= QUICK.threads + 1

    add_events(store, "one", "two")
    number = submit(client, table)

    for stream in streams[:100]:
        assert take(stream, 2) == ["one", "two"]
    for stream in streams[100:]:
        assert next(stream).operation.id == number
    for stream in streams:
        stream.cancel()
    wait_for(lambda: calls.open_streams == 0 and calls.context.feed.watchers == 0, "the streams to end", 30)


def test_nothing_is_read_while_nobody_watches(client: RpcClient, store: SqlStore) -> None:
    with watching(client.events.WatchEvents, WatchEventsRequest()) as stream:
        add_events(store, "one")
        take(stream, 1)
    feed = client.server._calls.context.feed
    wait_for(lambda: not feed.is_reading, "the reader to end", 30)
    readings = feed.readings
    add_events(store, "two")

    with watching(client.events.WatchEvents, WatchEventsRequest()) as stream:
        add_events(store, "three")
        assert take(stream, 1) == ["three"]
    assert feed.readings > readings


def test_more_streams_than_allowed_are_refused(api: ApiContext) -> None:
    with (
        rpc_serving(rpc_context(api), replace(QUICK, max_streams=1)) as client,
        watching(client.events.WatchEvents, WatchEventsRequest()),
    ):
        with pytest.raises(grpc.RpcError) as failed:
            next(client.events.WatchEvents(WatchEventsRequest(), timeout=TIMEOUT))
        assert failure_of(failed.value) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "too-many")


def test_a_stream_ends_when_its_token_is_revoked(api: ApiContext) -> None:
    guarded = with_security(api)
    token = made_token(guarded, "ann", Role.VIEWER)
    with (
        rpc_serving(rpc_context(guarded), replace(QUICK, recheck=0.1)) as client,
        watching(client.events.WatchEvents, WatchEventsRequest(kind="test."), metadata=bearer(token.secret)) as stream,
    ):
        guarded.services.access.revoke_token(ROOT, TokenId(token.id))
        with pytest.raises(grpc.RpcError) as failed:
            next(stream)

    assert failure_of(failed.value) == (grpc.StatusCode.UNAUTHENTICATED, "unauthorized")


def test_the_end_of_the_service_ends_all_streams(api: ApiContext) -> None:
    with (
        rpc_serving(rpc_context(api)) as client,
        watching(client.events.WatchEvents, WatchEventsRequest()) as events,
        watching(client.operations.WatchOperations, WatchOperationsRequest()) as operations,
    ):
        client.server.stop()
        for stream in (events, operations):
            with pytest.raises(grpc.RpcError) as failed:
                next(stream)
            assert failure_of(failed.value) == (grpc.StatusCode.UNAVAILABLE, "unavailable")


def test_an_action_can_be_watched(client: RpcClient, api: ApiContext) -> None:
    table = add_table(client)
    wanted = WatchOperationsRequest(action="compaction", location="/data/trips")
    with watching(client.operations.WatchOperations, wanted) as stream:
        api.services.operations.submit(ROOT, OperationRequest(table=table, action="compaction"))
        assert next(stream).operation.action == "compaction"
