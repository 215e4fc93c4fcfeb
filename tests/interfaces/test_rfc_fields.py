# SPDX-License-Identifier: Apache-2.0
"""Each field of RFC-43's JSON and of its two tables: what goes in is stored and shown, or refused, however it comes.

A field is a row of a table. A field without a row, and a row without a test that its value counts, fail here.
"""

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, fields
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lakehand.api.operations import OperationRequest
from lakehand.domain.operations import InstanceId, Operation
from lakehand.domain.tables import HEARTBEAT_TIMEOUT, Table, TableSpec
from lakehand.rest.rfc43 import RegisterRequest, RemoveRequest, SubmitRequest
from lakehand.store import SqlStore, open_store, schema
from tests.interfaces.senders import Refused, RestSender, RfcSender, RpcSender, WireSender
from tests.rest.parts import ACTIONS, HUDI, INSTANT, context_over, serving, with_engines
from tests.rpc.parts import rpc_context, rpc_serving

ROOT = Path(__file__).parents[2]
OTHER = "20261114191013983"
# The words of the RFC's example bodies.
RFC_SUBMIT = (
    "db_name", "table_name", "owner", "queue", "instant", "resource", "parallelism", "execution_engine", "extra_params",
)  # fmt: skip
RFC_REMOVE = ("db_name", "table_name", "instant")
RFC_REGISTER = ("table_name", "base_path", "owner", "queue", "priority")  # of its review
RFC_TBL = ("id", "db_name", "table_name", "base_path", "owner", "queue", "action_types", "priority")
RFC_OPERATION = (
    "operation_id", "tbl_id", "instant", "action", "status", "engine", "retry_on_error", "run_times", "isDeleted",
    "schedule_time", "create_time", "update_time",
)  # fmt: skip
BY_NUMBER = "our API and gRPC name a registered table by its number or location"


@dataclass(frozen=True)
class Field:
    """A field of a request for an operation: what each interface calls it, and what becomes of it."""

    value: Any
    wrong: Any  # what no interface takes
    stored: Callable[[Operation, Table], object]
    shown: Callable[[dict[str, Any]], object]  # in GET /api/v1/operations/{id}
    client: str  # in the query of Hudi's client, which is answered 200 whatever it says
    ours: str  # in our API and gRPC, if they have it
    counts: str  # the test that it is honoured
    left_out: str = ""  # why our API and gRPC have no such field
    becomes: Any = None  # as it is stored; None: as it was sent
    of_ours: Callable[[Any], Any] = field(default=lambda value: value)  # as our API and gRPC take it

    @property
    def result(self) -> Any:
        return self.value if self.becomes is None else self.becomes


def parameter(name: str) -> Callable[[Operation, Table], object]:
    return lambda operation, table: str(operation.process.parameters.get(name))


def options(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(";") if part)
    return {key: value for key, _, value in pairs}


NEW = "/data/new"  # begins the location of a table that the request registers
SUBMIT: Mapping[str, Field] = {
    "db_name": Field(
        "sales", "a\x00b", lambda o, t: t.spec.db_name, lambda shown: shown["table"]["db_name"], "db_name", "",
        "tests/rest/test_rfc43.py::test_a_plan_is_submitted_by_the_name_of_its_table", BY_NUMBER,
    ),
    "table_name": Field(
        "orders", "t" * 300, lambda o, t: t.spec.table_name, lambda shown: shown["table"]["table_name"], "table_name",
        "", "tests/rest/test_rfc43.py::test_a_plan_is_submitted_by_the_name_of_its_table", BY_NUMBER,
    ),
    "base_path": Field(
        "", "/elsewhere/trips", lambda o, t: t.spec.location, lambda shown: shown["table"]["location"], "basepath",
        "location", "tests/rest/test_rfc43.py::test_a_submission_with_a_base_path_registers_the_table_for_its_action",
    ),
    "owner": Field(
        "carol", "a\x00b", lambda o, t: o.owner, lambda shown: shown["owner"], "username", "owner",
        "tests/core/test_full_queue.py::test_an_owner_with_its_share_stops_no_other_owner",
    ),
    "queue": Field(
        "root.vip", "q" * 300, lambda o, t: o.queue, lambda shown: shown["queue"], "queue", "queue",
        "tests/core/test_full_queue.py::test_a_full_queue_stops_no_other_queue",
    ),
    "instant": Field(
        OTHER, "29991231235959", lambda o, t: o.instant, lambda shown: shown["instant"], "instant", "instant",
        "tests/formats/hudi/test_planned_admissions.py::test_a_request_from_the_wire_is_completed_from_the_table",
    ),
    "resource": Field(
        "8g:6g", "lots", parameter("resource"), lambda shown: shown["parameters"]["resource"], "resource",
        "resource",
        "tests/engines/test_submit_settings.py::"
        "test_resource_is_the_memory_of_driver_and_executors_in_both_spellings",
    ),
    "parallelism": Field(
        "7", "-1", parameter("parallelism"), lambda shown: str(shown["parameters"]["parallelism"]), "parallelism",
        "parallelism",
        "tests/engines/test_submit_settings.py::"
        "test_parallelism_is_cores_on_standalone_and_executors_on_yarn_where_the_queue_counts",
        of_ours=int,
    ),
    "execution_engine": Field(
        "spark-submit", "flink", lambda o, t: o.wanted_engine, lambda shown: shown["engine"], "execution_engine",
        "engine", "tests/core/test_routing.py::test_the_engine_that_a_request_asks_for_is_used_in_every_attempt",
    ),
    "extra_params": Field(
        "hoodie.compaction.target.io=512", "spark.jars=/tmp/evil.jar",
        lambda o, t: o.process.parameters["options"], lambda shown: shown["parameters"]["options"], "extra_params",
        "options", "tests/formats/hudi/test_planned_admissions.py::"
        "test_requests_and_properties_may_tune_sizes_and_nothing_else",
        becomes={"hoodie.compaction.target.io": "512"}, of_ours=options,
    ),
    "retry_on_error": Field(
        False, "sometimes", lambda o, t: o.retry_on_error, lambda shown: shown["retry_on_error"], "retry_on_error",
        "retry_on_error", "tests/core/test_whole_path.py::test_an_operation_without_retries_has_one_attempt",
    ),
}  # fmt: skip
# Only "false" is false: to Hudi's client everything else is what it has by default.
LENIENT = [("client", "retry_on_error")]
INTERFACES = ("submit", "client", "rest", "grpc")


class Served(NamedTuple):
    file: Path
    store: SqlStore
    senders: Mapping[str, Any]
    numbers: Iterator[int]

    def table(self, **changes: Any) -> Table:
        """A registered table that no other test has."""
        number = next(self.numbers)
        spec = TableSpec(
            location=f"/data/t{number}", format=HUDI, db_name=f"db{number}", table_name=f"t{number}",
            action_types=ACTIONS, heartbeat_timeout=HEARTBEAT_TIMEOUT, **changes,
        )  # fmt: skip
        return self.store.tables.add(spec, now=self.store.clock.now(), real=spec.location)[0]

    def show(self, path: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.senders["rest"].http.get(f"/api/v1/{path}").json()
        return answer

    def row(self, table: str, number: int) -> dict[str, Any]:
        """As it is in the database."""
        with closing(sqlite3.connect(self.file)) as connection:
            connection.row_factory = sqlite3.Row
            [key] = schema.metadata.tables[table].primary_key.columns
            return dict(connection.execute(f"SELECT * FROM {table} WHERE {key.name} = ?", [number]).fetchone())

    def events(self) -> set[tuple[int, int]]:
        """Each with how often it happened: equal ones are one with a count."""
        return {(one["id"], one["times"]) for one in self.show("events?limit=200")["items"]}


@pytest.fixture(scope="module")
def served(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for all rows: each test has a table of its own."""
    with ExitStack() as stack:
        file = shutil.copyfile(sqlite_template, tmp_path_factory.mktemp("fields") / "lakehand.db")
        store = open_store(f"sqlite:///{file}")
        stack.callback(store.close)
        context = with_engines(context_over(store), "spark", "spark-submit")
        url = str(stack.enter_context(serving(context)).base_url).rstrip("/")
        address = stack.enter_context(rpc_serving(rpc_context(context))).server.address
        senders: dict[str, Any] = {
            "submit": RfcSender(url), "client": WireSender(url), "rest": RestSender(url, ""),
            "grpc": RpcSender(address, ""),
        }  # fmt: skip
        for sender in senders.values():
            stack.callback(sender.close)
        warm = Served(file, store, senders, count(1))
        warm.show("tables")  # starts the threads of the server, which stay until the fixture ends
        yield warm


def sent(served: Served, interface: str, name: str, value: Any, table: Table) -> None:
    """A request for a compaction with this field; everything else is as the interface has it by default."""
    sender, row, spec = served.senders[interface], SUBMIT[name], table.spec
    if interface == "submit":
        named = (
            {"db_name": spec.db_name, "table_name": spec.table_name} if name != "base_path" else {"db_name": "other"}
        )
        sender.submit("compact", **{**named, "instant": INSTANT, name: value})
    elif interface == "client":
        text = {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value
        sender.submit("compact", **{"basepath": spec.location, "instant": INSTANT, row.client: text})
    else:
        place = {} if name == "base_path" else {"table": table.id}
        sender.submit(action="compaction", **{**place, "instant": INSTANT, row.ours: row.of_ours(value)})


CASES = [(one, name) for name, row in SUBMIT.items() for one in INTERFACES if row.ours or one in ("submit", "client")]
REGISTERING = ("db_name", "table_name")


@pytest.mark.parametrize(("interface", "name"), CASES)
def test_what_goes_in_is_stored_and_shown(served: Served, interface: str, name: str) -> None:
    row, table = SUBMIT[name], served.table()
    value = row.value
    if name in REGISTERING:  # a table that the request registers gets its names from it
        location = f"{NEW}-{interface}-{name}"
        given = {"table_name": f"t_{interface}", "instant": INSTANT}  # one table has the name
        body, names = {"base_path": location, **given, name: value}, {"basepath": location, **given, row.client: value}
        served.senders[interface].submit("compact", **(body if interface == "submit" else names))
        table = served.store.tables.by_locations([location])[location]
    elif name == "base_path":
        value = table.location
        sent(served, interface, name, value, table)
    else:
        sent(served, interface, name, value, table)

    [operation] = served.store.operations.of_table(table.id, recent=9)
    expected = value if name == "base_path" else row.result
    assert row.stored(operation, served.store.tables.get(table.id)) == expected
    assert row.shown(served.show(f"operations/{operation.id}")) == expected


@pytest.mark.parametrize(("interface", "name"), [case for case in CASES if case not in LENIENT])
def test_what_makes_no_sense_is_refused_and_stored_nowhere(served: Served, interface: str, name: str) -> None:
    row, table, before = SUBMIT[name], served.table(), served.events()

    if interface == "client":
        sent(served, interface, name, row.wrong, table)
        assert served.events() != before, "no event tells the operator"
    else:
        with pytest.raises((Refused, TypeError, ValueError)):
            sent(served, interface, name, row.wrong, table)

    stored = served.store.operations.of_table(table.id, recent=9)
    assert interface == "client" or stored == []
    assert row.wrong not in [row.stored(operation, table) for operation in stored]


@pytest.mark.parametrize("name", SUBMIT)
def test_a_test_shows_that_each_value_counts(name: str) -> None:
    file, _, test = SUBMIT[name].counts.partition("::")
    assert re.search(rf"def {test}\b", (ROOT / file).read_text(encoding="utf-8")), SUBMIT[name].counts


def test_no_field_is_without_a_row() -> None:
    more = {"base_path", "retry_on_error"}  # ours
    assert set(RFC_SUBMIT) | more == set(SUBMIT) == set(SubmitRequest.model_fields)
    assert set(RFC_REMOVE) | {"base_path"} == set(RemoveRequest.model_fields)
    assert {*RFC_REGISTER, "db_name", "action_types", "heartbeat_timeout", "properties"} == set(
        RegisterRequest.model_fields
    )
    assert {row.ours for row in SUBMIT.values() if row.ours} <= {one.name for one in fields(OperationRequest)}
    assert set(WireSender.DEFAULTS) - {"action"} <= {row.client for row in SUBMIT.values()}


# The columns of its two tables: our column, and where our API shows it.
TBL = {
    "id": ("id", "id"), "db_name": ("db_name", "db_name"), "table_name": ("table_name", "table_name"),
    "base_path": ("base_path", "location"), "owner": ("owner", "owner"), "queue": ("queue", "queue"),
    "action_types": ("action_types", "action_types"), "priority": ("priority", "priority"),
}  # fmt: skip
OPERATION = {
    "operation_id": ("operation_id", "id"), "tbl_id": ("tbl_id", "table"), "instant": ("instant", "instant"),
    "action": ("action", "action"), "status": ("status", "status"), "engine": ("engine", "engine"),
    "retry_on_error": ("retry_on_error", "retry_on_error"), "run_times": ("run_times", "attempts"),
    "isDeleted": ("is_deleted", "is_deleted"), "schedule_time": ("schedule_time", ""),
    "create_time": ("create_time", "created_at"), "update_time": ("update_time", "updated_at"),
}  # fmt: skip
WANTED: Mapping[str, Any] = {
    "db_name": "shop", "owner": "carol", "queue": "root.vip", "priority": 7, "action_types": ["clean", "compaction"],
}  # fmt: skip


def registered(served: Served, interface: str) -> Table:
    location, name = f"/data/registered-by-{interface}", f"by_{interface}"
    sender, named = served.senders[interface], {**WANTED, "table_name": name}
    if interface == "submit":
        sender.register(base_path=location, **named | {"action_types": "compaction,clean", "priority": 7})
    elif interface == "client":  # the actions are in the query of the writer's URL; it has no priority
        query = {"db_name": "shop", "table_name": name, "username": "carol", "queue": "root.vip"}
        sender.submit("compact", basepath=location, instant=INSTANT, actions="compaction,clean", **query)
    else:
        sender.add_table(location=location, format="hudi", **named)
    return served.store.tables.by_locations([location])[location]


@pytest.mark.parametrize("interface", INTERFACES)
def test_each_column_of_its_table_of_tables_is_stored_and_shown(served: Served, interface: str) -> None:
    table = registered(served, interface)

    shown = served.show(f"tables/{table.id}")
    expected = {**WANTED, "id": table.id, "table_name": f"by_{interface}", "base_path": table.location}
    expected |= {"priority": 0} if interface == "client" else {}
    assert {name: shown[ours] for name, (_, ours) in TBL.items()} == expected
    row = served.row("tbl", table.id)
    stored = {name: row[column] for name, (column, _) in TBL.items()}
    assert stored | {"action_types": re.findall(r"[a-z]+", stored["action_types"])} == expected


def test_each_column_of_its_table_of_operations_is_stored_and_shown(served: Served) -> None:
    table = served.table()
    served.senders["submit"].submit("compact", db_name=table.spec.db_name, table_name=table.spec.table_name,
                                    instant=INSTANT, execution_engine="spark-submit", retry_on_error=False)  # fmt: skip
    [operation] = served.store.operations.of_table(table.id, recent=9)
    now = served.store.clock.now()
    claimed = served.store.operations.claim(
        operation, holder=InstanceId("one"), now=now, time_to_live=HEARTBEAT_TIMEOUT
    )
    assert claimed is not None
    served.senders["submit"].remove("compact", db_name=table.spec.db_name, table_name=table.spec.table_name,
                                    instant=INSTANT)  # fmt: skip

    row = served.row("operation", operation.id)
    stored = {name: row[column] for name, (column, _) in OPERATION.items()}
    shown = served.show(f"operations/{operation.id}")

    seen = {name: shown[ours] for name, (_, ours) in OPERATION.items() if ours}
    assert seen["tbl_id"]["id"] == stored["tbl_id"] == table.id
    plain = ("operation_id", "instant", "action", "status", "engine", "run_times")
    assert {name: seen[name] for name in plain} == {name: stored[name] for name in plain}
    assert (seen["instant"], seen["action"], seen["engine"]) == (INSTANT, "compaction", "spark-submit")
    assert (bool(stored["retry_on_error"]), seen["retry_on_error"]) == (False, False)
    assert (bool(stored["isDeleted"]), seen["isDeleted"]) == (True, True)
    times = [stored[name] for name in ("schedule_time", "create_time", "update_time")]
    assert times == sorted(times)
    assert stored["create_time"] == round(operation.created_at.timestamp() * 1000)


@pytest.mark.parametrize(("table", "columns"), [("tbl", (RFC_TBL, TBL)), ("operation", (RFC_OPERATION, OPERATION))])
def test_no_column_is_without_a_row_and_no_row_without_a_column(table: str, columns: Any) -> None:
    of_the_rfc, rows = columns
    assert list(rows) == list(of_the_rfc)
    assert {column for column, _ in rows.values()} <= set(schema.metadata.tables[table].columns.keys())
