# SPDX-License-Identifier: Apache-2.0
"""Errors as statuses with details, bounds, deadlines, metrics, and what needs no token."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import RetryInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status

from lakehand.core.ports import AuditFilter
from lakehand.domain.errors import Unavailable
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.rest import ApiContext
from lakehand.rpc import RpcBounds, RpcServer
from lakehand.rpc.calls import carry_out, read_message
from lakehand.rpc.errors import DeadlinePassed
from lakehand.rpc.generated import access_pb2, operations_pb2, service_pb2, tables_pb2
from lakehand.rpc.generated.table_pb2 import Properties
from lakehand.rpc.methods import SERVICES
from lakehand.rpc.server import MOST_CALLS
from lakehand.store import SqlStore
from tests.kit.polling import wait_for
from tests.rest.parts import with_security, with_services
from tests.rpc.parts import BY_NAME, QUICK, RpcClient, bearer, failure_of, rpc_context, rpc_serving

Code = grpc.StatusCode
INVALID = (Code.INVALID_ARGUMENT, "invalid")
TOKENS = {"ana": "sesame-sesame-01"}


def failure(client: RpcClient, rpc: str, **fields: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as failed:
        client.call(BY_NAME[rpc], BY_NAME[rpc].request(**fields))
    return failure_of(failed.value)


@pytest.mark.parametrize(
    ("rpc", "fields", "expected"),
    [
        ("Tables.GetTable", {"id": 7}, (Code.NOT_FOUND, "not-found")),
        ("Tables.GetTable", {}, INVALID),
        ("Tables.GetTable", {"id": -1}, INVALID),
        ("Tables.AddTable", {}, INVALID),
        ("Tables.AddTable", {"location": "/elsewhere/t"}, (Code.INVALID_ARGUMENT, "location-refused")),
        ("Tables.AddTable", {"location": "/data/t\n"}, INVALID),
        ("Tables.AddTable", {"location": "/data/t", "properties": {"spark.jars": "x"}}, INVALID),
        ("Tables.AddTable", {"location": "/data/t", "heartbeat_timeout": Duration(seconds=-1)}, INVALID),
        ("Tables.AddTable", {"location": "/data/t", "scheduling": 99}, INVALID),
        ("Tables.ListTables", {"page_size": -1}, INVALID),
        ("Tables.ListTables", {"page_size": 1001}, INVALID),
        ("Tables.ListTables", {"page_token": "nonsense"}, INVALID),
        ("Tables.ListTables", {"state": 99}, INVALID),
        ("Tables.ChangeTable", {"id": 1, "owner": ""}, INVALID),
        ("Tables.ChangeTable", {"id": 1, "properties": Properties(entries={"a.password": "x"})}, INVALID),
        ("Tables.ChangeTable", {"id": 1, "action_types": ["+clean", "compaction"]}, INVALID),
        ("Tables.GetTableHealth", {"id": 1, "since": Timestamp(seconds=10**15)}, INVALID),
        ("Operations.SubmitOperation", {"action": "compaction"}, INVALID),
        ("Operations.SubmitOperation", {"table": 1, "action": "compaction", "instant": "soon"}, INVALID),
        ("Operations.SubmitOperation", {"table": 1, "action": "clean"}, (Code.FAILED_PRECONDITION, "conflict")),
        ("Operations.RetryOperation", {"id": 1}, (Code.FAILED_PRECONDITION, "illegal-step")),
        ("Operations.ListOperations", {"statuses": [99]}, INVALID),
        ("Operations.WatchOperations", {"id": 7}, (Code.NOT_FOUND, "not-found")),
        ("Operations.WatchOperations", {"statuses": [99]}, INVALID),
        ("Operations.WatchOperations", {"location": "/data/unknown"}, (Code.NOT_FOUND, "not-found")),
        ("Events.WatchEvents", {"position": "here"}, INVALID),
        ("Events.WatchEvents", {"after_id": -1}, INVALID),
        ("Events.WatchEvents", {"after_id": 10**9}, INVALID),
        ("Access.CreateToken", {"name": "new"}, INVALID),
        ("Alerts.SilenceAlert", {"id": 1}, INVALID),
        ("Catalogs.SyncCatalog", {"name": "unknown"}, (Code.NOT_FOUND, "not-found")),
        ("Fleet.GetFleet", {"hours": 10**6}, INVALID),
    ],
)
def test_what_is_wrong_has_a_status_and_a_code(
    client: RpcClient, rpc: str, fields: dict[str, Any], expected: tuple[grpc.StatusCode, str]
) -> None:
    client.tables.AddTable(tables_pb2.AddTableRequest(location="/data/trips", action_types=["compaction"]))
    client.operations.SubmitOperation(operations_pb2.SubmitOperationRequest(table=1, action="compaction"))

    assert failure(client, rpc, **fields) == expected


@contextmanager
def failing(api: ApiContext, error: Exception) -> Iterator[RpcClient]:
    def fail() -> Any:
        raise error

    with rpc_serving(rpc_context(with_services(api, plugins=fail))) as client:
        yield client


def test_what_may_pass_says_when_to_ask_again(api: ApiContext) -> None:
    error_of_plugins = Unavailable("the database does not answer")
    with failing(api, error_of_plugins) as client, pytest.raises(grpc.RpcError) as failed:
        client.service.ListPlugins(service_pb2.ListPluginsRequest())

    error: Any = failed.value
    assert failure_of(error) == (Code.UNAVAILABLE, "unavailable")
    status: Any = rpc_status.from_call(error)
    retry = RetryInfo()
    assert any(detail.Unpack(retry) for detail in status.details)
    assert retry.retry_delay.seconds == 2


def test_an_unexpected_error_tells_nothing(api: ApiContext) -> None:
    with failing(api, RuntimeError("secret path /home/ann")) as client, pytest.raises(grpc.RpcError) as failed:
        client.service.ListPlugins(service_pb2.ListPluginsRequest())

    error: Any = failed.value
    assert failure_of(error) == (Code.INTERNAL, "")
    assert "secret" not in f"{error.details()}{error.trailing_metadata()}"


def test_a_message_that_is_too_large_is_refused(api: ApiContext) -> None:
    with rpc_serving(rpc_context(api), replace(QUICK, max_message=2048)) as client:
        with pytest.raises(grpc.RpcError) as failed:
            client.tables.FindTable(tables_pb2.FindTableRequest(name="x" * 3000))
        assert failed.value.code() is Code.RESOURCE_EXHAUSTED
        assert failure(client, "Tables.FindTable", name="x" * 1000) == INVALID


def test_bytes_that_are_no_message_are_invalid(client: RpcClient) -> None:
    raw: Any = client.channel.unary_unary("/lakehand.v1.Tables/GetTable")

    with pytest.raises(grpc.RpcError) as failed:
        raw(b"\xff\xff\xff\xff")

    assert failure_of(failed.value) == INVALID


def test_an_unknown_rpc_is_unimplemented(client: RpcClient) -> None:
    raw: Any = client.channel.unary_unary("/lakehand.v1.Tables/DropTable")

    with pytest.raises(grpc.RpcError) as failed:
        raw(b"")

    assert failed.value.code() is Code.UNIMPLEMENTED


@contextmanager
def one_busy_thread(api: ApiContext, bounds: RpcBounds) -> Iterator[tuple[RpcClient, Callable[[], None]]]:
    """A server whose only thread waits until it is let go."""
    is_busy, go = threading.Event(), threading.Event()

    def block() -> Any:
        is_busy.set()
        go.wait(60)
        return ()

    with rpc_serving(rpc_context(with_services(api, plugins=block)), bounds) as client:
        blocked = client.service.ListPlugins.future(service_pb2.ListPluginsRequest())
        assert is_busy.wait(30)

        def release() -> None:
            go.set()
            blocked.result(timeout=30)

        try:
            yield client, release
        finally:
            go.set()


def test_a_call_whose_deadline_has_passed_is_not_begun(api: ApiContext, store: SqlStore) -> None:
    with one_busy_thread(api, replace(QUICK, threads=1)) as (client, release):
        with pytest.raises(grpc.RpcError) as failed:
            client.tables.AddTable(tables_pb2.AddTableRequest(location="/data/late"), timeout=0.2)
        # The server's clock for this call began later than ours; the next call on the connection comes after its end.
        health: Any = health_pb2_grpc.HealthStub(client.channel)
        health.Check(health_pb2.HealthCheckRequest(), timeout=30)
        calls = client.server._calls
        wait_for(lambda: calls.in_flight == 1, "the server has given up the late call", 30)
        release()
        client.tables.AddTable(tables_pb2.AddTableRequest(location="/data/next"))

    assert failed.value.code() is Code.DEADLINE_EXCEEDED
    asked = [entry.request.detail["location"] for entry in audit(store)]
    assert asked == ["/data/next"]


def test_a_call_that_reaches_a_thread_after_its_deadline_is_not_begun() -> None:
    nothing: Any = None

    with pytest.raises(DeadlinePassed):
        carry_out(BY_NAME["Tables.AddTable"], nothing, b"", deadline=time.monotonic() - 0.1)


def audit(store: SqlStore) -> Any:
    return store.audit.list(AuditFilter(action="table.add"), limit=10, cursor=None).items


def test_more_calls_than_allowed_are_refused_at_once(api: ApiContext) -> None:
    with one_busy_thread(api, replace(QUICK, threads=1, max_requests=1)) as (client, release):
        own = [("grpc.use_local_subchannel_pool", 1)]  # another connection
        with grpc.insecure_channel(client.server.address, own) as channel, pytest.raises(grpc.RpcError) as failed:
            RpcClient(channel, client.server).tables.ListTables(tables_pb2.ListTablesRequest(), timeout=30)
        assert failed.value.code() is Code.RESOURCE_EXHAUSTED
        release()


def test_more_connections_than_allowed_are_closed_at_once(api: ApiContext) -> None:
    settings = b"\x04"  # the type of the frame that a server sends first
    with rpc_serving(rpc_context(api), replace(QUICK, max_connections=2)) as client, ExitStack() as opened:
        host, _, port = client.server.address.partition(":")

        def first_bytes() -> bytes:
            connection = opened.enter_context(socket.create_connection((host, int(port)), timeout=30))
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0")
            return connection.recv(4)[3:]

        found = [first_bytes() for _ in range(3)]

    assert found == [settings, settings, b""]


def test_without_a_token_the_message_is_not_read(api: ApiContext) -> None:
    """A caller without a token cannot keep a call open by never sending the rest of it."""
    with rpc_serving(rpc_context(with_security(api, tokens=TOKENS))) as client:
        never = threading.Event()
        raw: Any = client.channel.stream_unary("/lakehand.v1.Tables/ListTables")

        def silent() -> Iterator[bytes]:
            never.wait(60)
            yield b""

        with pytest.raises(grpc.RpcError) as failed:
            raw(silent(), timeout=30)
        never.set()

    assert failure_of(failed.value) == (Code.UNAUTHENTICATED, "unauthorized")


@pytest.mark.parametrize("path", ["/lakehand.v1.Service/GetVersion", "/grpc.health.v1.Health/Check"])
def test_half_a_call_that_needs_no_token_ends_by_itself(
    client: RpcClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(read_message, "__defaults__", (0.1,))
    never = threading.Event()
    raw: Any = client.channel.stream_unary(path)

    def silent() -> Iterator[bytes]:
        never.wait(60)
        yield b""

    with pytest.raises(grpc.RpcError) as failed:
        raw(silent(), timeout=30)
    never.set()

    assert failed.value.code() is Code.INVALID_ARGUMENT


def test_so_many_may_watch_the_health(client: RpcClient) -> None:
    stub: Any = health_pb2_grpc.HealthStub(client.channel)
    streams = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=60) for _ in range(MOST_CALLS)]
    assert {next(stream).status for stream in streams} == {health_pb2.HealthCheckResponse.SERVING}

    with pytest.raises(grpc.RpcError) as failed:
        stub.Check(health_pb2.HealthCheckRequest(), timeout=30)

    assert failed.value.code() is Code.RESOURCE_EXHAUSTED
    assert client.tables.ListTables(tables_pb2.ListTablesRequest()).next_page_token == ""
    for stream in streams:
        stream.cancel()


def test_wrong_tokens_leave_one_event_with_a_count(api: ApiContext, store: SqlStore) -> None:
    with rpc_serving(rpc_context(with_security(api, tokens=TOKENS))) as client:
        for attempt in range(3):
            with pytest.raises(grpc.RpcError):
                client.tables.ListTables(tables_pb2.ListTablesRequest(), metadata=bearer(f"guess-guess-{attempt}"))
        found = wait_for(lambda: store.events.list(kind="api.unauthorized").items, "the event", 30)

    [stored] = found
    assert stored.times == 3
    assert stored.event.detail == {"address": "127.0.0.1", "route": "Tables.ListTables"}


def test_health_reflection_and_version_need_no_token(api: ApiContext) -> None:
    with rpc_serving(rpc_context(with_security(api, tokens=TOKENS))) as client:
        health: Any = health_pb2_grpc.HealthStub(client.channel)
        services = ProtoReflectionDescriptorDatabase(client.channel).get_services()

        assert client.service.GetVersion(service_pb2.GetVersionRequest()).name == "lakehand"
        for name in ("", *SERVICES):
            assert health.Check(health_pb2.HealthCheckRequest(service=name)).status == 1
        with pytest.raises(grpc.RpcError) as failed:
            health.Check(health_pb2.HealthCheckRequest(service="lakehand.v1.Unknown"))
        assert failed.value.code() is Code.NOT_FOUND
    assert set(SERVICES) < set(services)


def test_the_health_follows_the_readiness(api: ApiContext) -> None:
    parts = {"database": "ok"}
    with rpc_serving(rpc_context(with_services(api, readiness=lambda: dict(parts)))) as client:
        health: Any = health_pb2_grpc.HealthStub(client.channel)
        watched = health.Watch(health_pb2.HealthCheckRequest())
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING

        parts["database"] = "away: secret@host"

        assert next(watched).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert health.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watched.cancel()


def test_calls_are_counted_by_rpc_and_code(api: ApiContext) -> None:
    metrics = PrometheusMetrics()
    with rpc_serving(rpc_context(api, metrics.rpc)) as client:
        client.access.GetCaller(access_pb2.GetCallerRequest())
        failure(client, "Tables.GetTable", id=7)
        text = wait_for(lambda: counted(metrics, "Tables.GetTable"), "the count", 30)

    assert 'lakehand_rpc_calls_total{code="OK",rpc="Access.GetCaller"} 1.0' in text
    assert 'lakehand_rpc_calls_total{code="NOT_FOUND",rpc="Tables.GetTable"} 1.0' in text
    assert 'lakehand_rpc_seconds_count{rpc="Access.GetCaller"} 1.0' in text


def counted(metrics: PrometheusMetrics, rpc: str) -> str | None:
    text = metrics.text()[0].decode()
    return text if rpc in text else None


def test_two_servers_do_not_share_a_port(client: RpcClient) -> None:
    with pytest.raises(Unavailable, match=r"cannot listen on 127\.0\.0\.1:"):
        RpcServer("127.0.0.1", client.server.port)
