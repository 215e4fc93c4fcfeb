# SPDX-License-Identifier: Apache-2.0
"""Traces and lineage of operations, sent to a real HTTP receiver. Only tables and engine are stand-ins."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from lakehand.app.setting_groups import TelemetrySettings
from lakehand.app.wiring import build_telemetry
from lakehand.core.loops.telemetry import Telemetry
from lakehand.domain.notifications import Notification
from lakehand.domain.operations import Operation, Status
from lakehand.domain.tables import Table
from lakehand.observe.lineage import dataset_name
from lakehand.spi import EngineState
from lakehand.store import SqlStore, open_store
from tests.core.world import World
from tests.domain.words import COMPACTION
from tests.kit.receiver import Receiver, receiving

T1 = "20261115110000000"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    opened = open_store(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'lakehand.db')}")
    yield opened
    opened.close()


def settings_for(receiver: Receiver, **changes: Any) -> TelemetrySettings:
    given: dict[str, Any] = {
        "otlp_endpoint": receiver.url, "openlineage_url": receiver.url, "namespace": "lake",
        "otlp_headers": {"x-token": SecretStr("sesame-otlp")}, "openlineage_api_key": SecretStr("sesame-lineage"),
    }  # fmt: skip
    return TelemetrySettings(**(given | changes))


def observed(store: SqlStore, receiver: Receiver, **changes: Any) -> tuple[World, Telemetry]:
    world = World(store)
    telemetry = build_telemetry(settings_for(receiver, **changes), world.store, "one")
    world.observer = telemetry
    world.restart()
    return world, telemetry


def notified(world: World) -> Table:
    """A table whose writer has just planned a compaction and told us."""
    table = world.add_table()
    world.turn()
    world.tables.plan(table.location, T1)
    world.intake.record([Notification(source="wire", location=table.location, action=COMPACTION, instants=(T1,))])
    world.clock.pass_by(seconds=2)
    world.look()
    world.clock.pass_by(seconds=3)
    world.dispatcher.run_once()
    return table


def succeed(world: World, table: Table) -> Operation:
    world.clock.pass_by(seconds=20)
    world.tables.complete(table.location, T1)
    world.engine.says(EngineState.SUCCEEDED, result={"bytes_rewritten": 4096})
    world.monitor.run_once()
    operation = world.the_operation(table)
    assert operation.status is Status.SUCCEEDED
    return operation


def test_one_trace_goes_from_the_notification_to_the_verified_result(store: SqlStore, receiver: Receiver) -> None:
    world, telemetry = observed(store, receiver)
    table = notified(world)
    operation = succeed(world, table)
    telemetry.close()

    assert [span.name for span in receiver.spans] == ["compaction trips", "decide", "wait", "attempt", "verify"]
    root, *children = receiver.spans
    assert len({span.trace_id for span in receiver.spans}) == 1
    assert {span.parent_span_id for span in children} == {root.span_id}
    assert root.parent_span_id == b""
    assert root.start_time_unix_nano == nanoseconds(operation.due_at)
    for before, after in pairwise(children):
        assert before.end_time_unix_nano == after.start_time_unix_nano
    assert root.end_time_unix_nano == children[-1].end_time_unix_nano
    facts = {a.key: a.value for a in root.attributes}
    assert facts["lakehand.status"].string_value == "succeeded"
    assert facts["lakehand.operation"].int_value == operation.id
    assert facts["lakehand.bytes_rewritten"].int_value == 4096
    assert receiver.resources[0]["service.name"] == "lakehand"
    assert {one.get("x-token") for one in receiver.headers} >= {"sesame-otlp"}


def nanoseconds(moment: Any) -> int:
    return int(moment.timestamp() * 1000) * 1_000_000


def test_a_retried_operation_is_one_trace_with_two_attempts_also_after_a_restart(
    store: SqlStore, receiver: Receiver
) -> None:
    world, telemetry = observed(store, receiver)
    table = notified(world)
    world.engine.says(EngineState.FAILED, error_class="java.io.IOException", message="no space")
    world.monitor.run_once()
    telemetry.close()
    world.observer = second = build_telemetry(settings_for(receiver), world.store, "two")
    world.restart()
    world.clock.pass_by(hours=1)
    world.dispatcher.run_once()
    succeed(world, table)
    second.close()

    assert len({span.trace_id for span in receiver.spans}) == 1
    first, again = receiver.named("attempt")
    assert (first.status.code, again.status.code) == (2, 0)
    assert "no space" in first.status.message
    assert len({span.span_id for span in receiver.spans}) == len(receiver.spans)
    assert [run["eventType"] for run in receiver.runs] == ["START", "FAIL", "START", "COMPLETE"]
    assert len({run["run"]["runId"] for run in receiver.runs}) == 2


def test_lineage_says_that_a_rewrite_reads_and_writes_its_table(store: SqlStore, receiver: Receiver) -> None:
    world, telemetry = observed(store, receiver)
    succeed(world, notified(world))
    telemetry.close()

    start, end = receiver.runs
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["job"]["namespace"] == "lake"
    assert end["job"]["name"] == "compaction.trips"
    for dataset in (*end["inputs"], *end["outputs"]):
        assert (dataset["namespace"], dataset["name"]) == ("file", "/lake/trips")
    assert end["outputs"][0]["outputFacets"]["outputStatistics"]["size"] == 4096
    assert end["run"]["facets"]["processing_engine"]["name"] == "spark"
    assert start["eventTime"] < end["eventTime"]
    assert {one.get("authorization") for one in receiver.headers} >= {"Bearer sesame-lineage"}


def test_a_failure_for_good_is_an_error_with_its_reason(store: SqlStore, receiver: Receiver) -> None:
    world, telemetry = observed(store, receiver)
    table = notified(world)
    for _ in range(3):
        world.engine.says(EngineState.FAILED, error_class="java.io.IOException", message="no space")
        world.monitor.run_once()
        world.clock.pass_by(hours=2)
        world.dispatcher.run_once()
    telemetry.close()

    assert world.the_operation(table).status is Status.FAILED
    assert receiver.spans[0].status.code == 2
    assert "no space" in receiver.spans[0].status.message
    assert receiver.runs[-1]["eventType"] == "FAIL"
    assert "no space" in receiver.runs[-1]["run"]["facets"]["errorMessage"]["message"]


def test_receivers_that_hang_keep_no_operation_waiting(store: SqlStore, receiver: Receiver) -> None:
    receiver.may_answer.clear()
    world, telemetry = observed(store, receiver, timeout=timedelta(seconds=1))

    operation = succeed(world, notified(world))

    assert operation.status is Status.SUCCEEDED
    receiver.may_answer.set()
    telemetry.close()


def test_receivers_that_fail_or_are_away_are_logged_once(
    store: SqlStore, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    world, telemetry = observed(store, receiver, otlp_endpoint="", openlineage_url="http://127.0.0.1:9")

    succeed(world, notified(world))
    telemetry.close()

    assert [record.__dict__["sink"] for record in caplog.records if record.message == "not sent"] == ["lineage"]


def test_a_full_queue_drops_and_says_so_once(store: SqlStore, caplog: pytest.LogCaptureFixture) -> None:
    class Slow:
        name = "slow"

    telemetry = Telemetry(store, [], most=1)
    telemetry.sinks = [Slow()]  # type: ignore[list-item]
    operation: Any = object()
    for _ in range(5):
        telemetry.ended(operation)

    assert telemetry.dropped == 4
    assert len([record for record in caplog.records if "dropped" in record.message]) == 1


def test_nothing_is_sent_and_no_thread_runs_by_default(store: SqlStore, receiver: Receiver) -> None:
    world, telemetry = observed(store, receiver, otlp_endpoint="", openlineage_url="")
    succeed(world, notified(world))
    telemetry.close()

    assert not telemetry._thread.is_alive()
    assert receiver.headers == []


@pytest.mark.parametrize("address", ["collector:4318", "ftp://collector", "http://", "grpc://collector:4317"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="use http://HOST:PORT"):
        TelemetrySettings(otlp_endpoint=address)


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("/data/trips", ("file", "/data/trips")),
        ("s3://lake/sales/orders", ("s3://lake", "sales/orders")),
        ("hdfs://nn:8020/lake/t", ("hdfs://nn:8020", "lake/t")),
        ("abfss://lake@acc.dfs.core.windows.net/t", ("abfss://lake@acc.dfs.core.windows.net", "t")),
    ],
)
def test_datasets_are_named_by_the_rules_of_openlineage(location: str, name: tuple[str, str]) -> None:
    assert dataset_name(location) == name
