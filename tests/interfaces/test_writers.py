# SPDX-License-Identifier: Apache-2.0
"""What writers say, through each interface that they have: plans to run, plans that are gone, tables that changed."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from lakehand.client import Commit, LakehandClient, RequestFailed
from lakehand.domain.actions import Action
from lakehand.domain.operations import Operation, Status
from lakehand.domain.tables import Table, TableSpec
from lakehand.rest import ApiContext
from lakehand.rpc.generated import writers_pb2
from lakehand.store import SqlStore, open_store
from tests.client.blocking import BlockingClient
from tests.interfaces.senders import Refused
from tests.rest.parts import ACTIONS, HUDI, LOCATION, context_over, serving, with_security
from tests.rpc.parts import BY_NAME, RpcClient, failure_of, rpc_context, rpc_serving

FIRST, SECOND = "20261114191013982", "20261114191014000"
KINDS = {"compaction": "compact", "clustering": "cluster"}


class ByRest:
    def __init__(self, http: httpx.Client, _rpc: RpcClient) -> None:
        self.http = http

    def send(self, path: str, body: Any) -> Any:
        answer = self.http.post(path, json=body)
        if answer.is_error:
            raise Refused(answer.json()["error"]["code"], answer.json()["error"]["message"])
        return answer.json()

    def submit(self, table: str, action: str, instants: list[str], **fields: Any) -> list[int]:
        body = {"location": table, "action": action, "instants": instants, **fields}
        return [one["id"] for one in self.send("/api/v1/plans", body)["operations"]]

    def remove(self, table: str, action: str, instant: str) -> None:
        self.send("/api/v1/plans/remove", {"location": table, "action": action, "instant": instant})

    def report(self, *commits: dict[str, Any]) -> dict[str, int]:
        events = [
            {"specversion": "1.0", "type": "dev.lakehand.table.committed", "source": "job", "id": str(n), "data": data}
            for n, data in enumerate(commits)
        ]
        return counts(self.send("/api/v1/commits", events))


class ByRfc(ByRest):
    """RFC-43's own endpoints, with its words."""

    def submit(self, table: str, action: str, instants: list[str], **fields: Any) -> list[int]:
        own = {"engine": "execution_engine"}
        options = ";".join(f"{key}={value}" for key, value in fields.pop("options", {}).items())
        body = {"base_path": table, "instant": ",".join(instants), "extra_params": options}
        body |= {own.get(name, name): value for name, value in fields.items()}
        answer = self.send(f"/v1/hoodie/service/{KINDS[action]}/submit", body)
        return [one["id"] for one in answer["operations"]]

    def remove(self, table: str, action: str, instant: str) -> None:
        self.send(f"/v1/hoodie/service/{KINDS[action]}/remove", {"base_path": table, "instant": instant})


class ByRpc:
    def __init__(self, _http: httpx.Client, rpc: RpcClient) -> None:
        self.rpc = rpc

    def send(self, name: str, **fields: Any) -> Any:
        method = BY_NAME[f"Writers.{name}"]
        try:
            return self.rpc.call(method, method.request(**fields))
        except grpc.RpcError as error:
            raise Refused(failure_of(error)[1], str(error.details())) from error

    def submit(self, table: str, action: str, instants: list[str], **fields: Any) -> list[int]:
        answer = self.send("SubmitPlans", location=table, action=action, instants=instants, **fields)
        return [one.id for one in answer.operations]

    def remove(self, table: str, action: str, instant: str) -> None:
        self.send("RemovePlan", location=table, action=action, instant=instant)

    def report(self, *commits: dict[str, Any]) -> dict[str, int]:
        sent = [writers_pb2.Commit(id=str(n), source="job", **one) for n, one in enumerate(commits)]
        answer = self.send("ReportCommits", commits=sent)
        return counts({name: getattr(answer, name) for name in COUNTS})


class ByClient:
    make: Any = LakehandClient

    def __init__(self, http: httpx.Client, _rpc: RpcClient) -> None:
        self.client = self.make(str(http.base_url))

    def call(self, do: Any, *words: Any, **fields: Any) -> Any:
        try:
            return do(*words, **fields)
        except RequestFailed as error:
            raise Refused(error.code or "", str(error)) from error

    def submit(self, table: str, action: str, instants: list[str], **fields: Any) -> list[int]:
        found = self.call(self.client.writers.submit, table, action, instants, **fields)
        return [one.id for one in found.operations]

    def remove(self, table: str, action: str, instant: str) -> None:
        self.call(self.client.writers.remove, table, action, instant)

    def report(self, *commits: dict[str, Any]) -> dict[str, int]:
        answer = self.call(self.client.writers.report, [Commit(**one) for one in commits])
        return counts({name: getattr(answer, name) for name in COUNTS})


class ByAsyncClient(ByClient):
    make = BlockingClient


COUNTS = ("stored", "ignored", "waiting", "refused", "tables")
WRITERS: dict[str, Any] = {
    "rest": ByRest, "rfc-43": ByRfc, "grpc": ByRpc, "client": ByClient, "async client": ByAsyncClient,
}  # fmt: skip


def counts(answer: dict[str, Any]) -> dict[str, int]:
    return {name: answer[name] for name in COUNTS if answer[name]}


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    opened = open_store(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'lakehand.db')}")
    yield opened
    opened.close()


@pytest.fixture
def context(store: SqlStore) -> ApiContext:
    return context_over(store)


@pytest.fixture
def table(context: ApiContext) -> Table:
    return context.services.tables.register(TableSpec(location=LOCATION, format=HUDI, action_types=ACTIONS))[0]


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest, context: ApiContext) -> Iterator[Any]:
    with ExitStack() as stack:
        http, rpc = stack.enter_context(serving(context)), stack.enter_context(rpc_serving(rpc_context(context)))
        one = WRITERS[request.param](http, rpc)
        if isinstance(one, ByClient):
            stack.callback(one.client.close)
        yield one


def operations(store: SqlStore, table: Table) -> list[Operation]:
    return sorted(store.operations.of_table(table.id, recent=9), key=lambda one: one.instant)


def test_each_plan_is_one_operation_with_what_the_writer_wants(writer: Any, store: SqlStore, table: Table) -> None:
    wanted: dict[str, Any] = {
        "resource": "4g:8g",
        "parallelism": 7,
        "queue": "vip",
        "owner": "ann",
        "retry_on_error": False,
    }
    wanted["options"] = {"hoodie.compaction.target.io": "512"}

    ids = writer.submit(LOCATION, "compaction", [FIRST, SECOND, FIRST], **wanted)
    again = writer.submit(LOCATION, "compaction", [SECOND, FIRST])

    assert sorted(ids) == sorted(again) == [one.id for one in operations(store, table)]
    for one in operations(store, table):
        assert (one.queue, one.owner, one.retry_on_error) == ("vip", "ann", False)
        shown = {name: one.process.parameters[name] for name in ("resource", "parallelism", "options")}
        assert shown == {"resource": "4g:8g", "parallelism": "7", "options": wanted["options"]}
    assert {one.instant for one in operations(store, table)} == {FIRST, SECOND}


def test_a_location_that_nobody_registered_is_registered_for_this_action_alone(
    writer: Any, context: ApiContext, store: SqlStore
) -> None:
    writer.submit("/data/new", "clustering", [FIRST], owner="ann")

    table = context.services.tables.find("/data/new")
    assert (table.spec.action_types, table.spec.owner) == (frozenset({Action("clustering")}), "ann")
    assert len(operations(store, table)) == 1


NONSENSE: list[tuple[list[str], dict[str, Any]]] = [
    (["soon"], {}),
    ([FIRST], {"resource": "lots"}),
    ([FIRST], {"parallelism": 1_000_001}),
    ([FIRST], {"engine": "odd"}),
    ([FIRST], {"options": {"hoodie.odd": "1"}}),
]


def test_what_makes_no_sense_registers_and_stores_nothing(writer: Any, context: ApiContext) -> None:
    for instants, fields in NONSENSE:
        with pytest.raises(Refused) as refused:
            writer.submit("/data/new", "compaction", instants, **fields)
        assert refused.value.code == "invalid", fields

    assert not context.services.tables.has("/data/new")


def test_a_plan_is_removed_by_its_table_and_instant_and_no_other(writer: Any, store: SqlStore, table: Table) -> None:
    writer.submit(LOCATION, "compaction", [FIRST, SECOND])

    for wrong in ({"action": "clustering", "instant": FIRST}, {"action": "compaction", "instant": "20261114191015000"}):
        with pytest.raises(Refused) as refused:
            writer.remove(LOCATION, **wrong)
        assert refused.value.code == "not-found"
    writer.remove(LOCATION, "compaction", FIRST)

    first, second = operations(store, table)
    assert (first.status, first.is_deleted) == (Status.CANCELED, True)
    assert (second.status, second.is_deleted) == (Status.PENDING, False)


def test_a_table_is_also_named_as_rfc_43_does(context: ApiContext, store: SqlStore) -> None:
    spec = TableSpec(location=LOCATION, format=HUDI, action_types=ACTIONS, db_name="sales", table_name="trips")
    table = context.services.tables.register(spec)[0]
    names = {"db_name": "sales", "table_name": "trips", "action": "compaction"}
    with serving(context) as http, rpc_serving(rpc_context(context)) as rpc:
        by_rest, by_rpc = ByRest(http, rpc), ByRpc(http, rpc)
        by_rest.send("/api/v1/plans", {**names, "instants": [FIRST]})
        by_rpc.send("SubmitPlans", **names, instants=[SECOND])
        with LakehandClient(str(http.base_url)) as client:
            for one in ("sales.trips", str(table.id), table.id):
                client.writers.submit(one, "compaction", SECOND)
        with pytest.raises(Refused, match="names no table"):
            by_rpc.send("SubmitPlans", action="compaction", instants=[FIRST])

    assert [one.instant for one in operations(store, table)] == [FIRST, SECOND]


def test_reported_commits_make_their_tables_due_and_the_rest_is_counted(
    writer: Any, store: SqlStore, table: Table
) -> None:
    before = {one.action: one.wakes for one in store.schedules.of_table(table.id)}

    answer = writer.report(
        {"location": LOCATION, "partitions": ["day=1"], "version": FIRST, "numbers": {"files": 2}},
        {"location": LOCATION}, {"location": "/data/unknown"}, {"location": "/elsewhere"},
    )  # fmt: skip

    assert answer == {"stored": 2, "refused": 2, "tables": 1}
    assert {one.action: one.wakes for one in store.schedules.of_table(table.id)} == {
        action: wakes + 1 for action, wakes in before.items()
    }
    assert store.partitions.changed(table.id).names == ("day=1",)


@pytest.mark.parametrize("interface", ["rest", "grpc"])
def test_a_commit_with_the_same_id_of_the_same_source_is_the_same(
    context: ApiContext, table: Table, interface: str
) -> None:
    with serving(context) as http, rpc_serving(rpc_context(context)) as rpc:
        writer = WRITERS[interface](http, rpc)

        assert writer.report({"location": LOCATION}) == {"stored": 1, "tables": 1}
        assert writer.report({"location": table.location}) == {"ignored": 1}


def test_more_commits_than_one_request_may_have_are_refused_as_a_whole(context: ApiContext, table: Table) -> None:
    with rpc_serving(rpc_context(context)) as rpc:
        commits = [writers_pb2.Commit(location=table.location)] * 1001
        with pytest.raises(grpc.RpcError) as failed:
            rpc.call(BY_NAME["Writers.ReportCommits"], writers_pb2.ReportCommitsRequest(commits=commits))

    assert failure_of(failed.value) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid")


def test_reported_commits_are_counted_by_outcome_whatever_the_interface(context: ApiContext, table: Table) -> None:
    with serving(context) as http, rpc_serving(rpc_context(context)) as rpc:
        for interface in ("rest", "grpc", "client"):
            WRITERS[interface](http, rpc).report({"location": table.location, "version": interface})

    # The commit of gRPC has the id and the source of the one before: REST's own.
    lines = context.metrics_text()[0].decode().splitlines()
    counted = {line for line in lines if line.startswith("lakehand_notifications_total{") and 'source="event"' in line}
    assert {line.partition('outcome="')[2].partition('"')[0]: float(line.split()[-1]) for line in counted} | {
        "waiting": 0, "refused": 0
    } == {"stored": 2, "ignored": 1, "waiting": 0, "refused": 0}  # fmt: skip


@pytest.mark.parametrize(("query", "status"), [("", 401), ("?token=wrong", 401), ("?token=sesame-sesame-03", 200)])
def test_plans_may_come_with_the_writers_secret_instead_of_a_token(
    context: ApiContext, table: Table, query: str, status: int
) -> None:
    body = {"table": table.id, "action": "compaction", "instants": [FIRST]}
    with serving(with_security(context, wire_token="sesame-sesame-03")) as http:
        assert http.post(f"/api/v1/plans{query}", json=body).status_code == status

    assert len(context.services.operations.of_table(table.id)) == (status == 200)
