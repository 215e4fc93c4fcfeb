# SPDX-License-Identifier: Apache-2.0
"""What a request about an operation says is stored, or refused with the reason, through every interface."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.api.fields import names_of
from lakehand.api.operations import OperationRequest
from lakehand.core.ports import AuditFilter
from lakehand.domain.access import Role
from lakehand.domain.actions import Action
from lakehand.domain.operations import InstanceId, Operation, Status, taken_off
from lakehand.domain.processes import Instant
from lakehand.domain.tables import Table, TableChanges, TableSpec
from lakehand.rest import ApiContext
from lakehand.store import SqlStore, open_store
from tests.interfaces.senders import SENDERS, WITH_FORM, Refused, sending
from tests.rest.parts import ACTIONS, HUDI, INSTANT, LOCATION, context_over, made_token, with_engines


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    opened = open_store(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'lakehand.db')}")
    yield opened
    opened.close()


@pytest.fixture
def context(store: SqlStore) -> ApiContext:
    return with_engines(context_over(store), "spark", "spark-submit")


@pytest.fixture
def table(context: ApiContext) -> Table:
    return context.services.tables.register(TableSpec(location=LOCATION, format=HUDI, action_types=ACTIONS))[0]


@pytest.fixture(params=SENDERS)
def sender(request: pytest.FixtureRequest, context: ApiContext, table: Table) -> Iterator[Any]:
    with sending(context, request.param) as one:
        yield one


def the_operation(store: SqlStore, table: Table) -> Operation:
    [operation] = store.operations.of_table(table.id, recent=9)
    return operation


def test_an_instant_that_another_action_has_is_refused_with_what_is_there(
    sender: Any, store: SqlStore, table: Table
) -> None:
    sender.submit(table=table.id, action="compaction", instant=INSTANT)

    with pytest.raises(Refused, match=r"operation 1 \(compaction, pending\)") as refused:
        sender.submit(table=table.id, action="clustering", instant=INSTANT)

    assert refused.value.code in ("conflict", "")
    operation = store.operations.find(table.id, Instant(INSTANT))
    assert operation is not None
    assert operation.process.action == Action("compaction")


@pytest.mark.parametrize("retries", [True, False])
def test_whether_a_failed_attempt_is_repeated_is_stored(
    sender: Any, store: SqlStore, table: Table, retries: bool
) -> None:
    sender.submit(table=table.id, action="compaction", retry_on_error=retries)

    assert the_operation(store, table).retry_on_error is retries


@pytest.mark.parametrize("engine", ["spark", "spark-submit"])
def test_the_engine_that_is_asked_for_is_stored(sender: Any, store: SqlStore, table: Table, engine: str) -> None:
    sender.submit(table=table.id, action="compaction", engine=engine)

    operation = the_operation(store, table)
    assert (operation.wanted_engine, operation.process.engine) == (engine, engine)


@pytest.mark.parametrize("engine", ["flink", "odd"])
def test_an_engine_that_is_unknown_or_off_is_refused_with_those_that_are_on(
    sender: Any, store: SqlStore, table: Table, engine: str
) -> None:
    with pytest.raises(Refused, match="on are: spark, spark-submit; odd is broken") as refused:
        sender.submit(table=table.id, action="compaction", engine=engine)

    assert refused.value.code in ("invalid", "")
    assert store.operations.of_table(table.id, recent=9) == []


@pytest.mark.parametrize(("field", "value"), [("priority", 50), ("queue", "vip"), ("owner", "carol")])
def test_what_an_operation_has_of_its_own_is_stored_and_the_rest_is_the_tables(
    sender: Any, store: SqlStore, table: Table, field: str, value: object
) -> None:
    of_the_table: dict[str, Any] = {"priority": 7, "queue": "slow", "owner": "bob"}
    store.tables.change(table.id, TableChanges(**of_the_table), now=store.clock.now())

    sender.submit(table=table.id, action="compaction", **{field: value})

    operation = the_operation(store, table)
    assert {name: getattr(operation, name) for name in of_the_table} == of_the_table | {field: value}


@pytest.mark.parametrize("interface", SENDERS)
def test_a_token_of_one_owner_gives_no_operation_to_another(
    interface: str, context: ApiContext, store: SqlStore, table: Table
) -> None:
    store.tables.change(table.id, TableChanges(owner="ann"), now=store.clock.now())
    token = made_token(context, "of-ann", Role.OPERATOR, owner="ann").secret

    with sending(context, interface, token) as sender:
        sender.submit(table=table.id, action="compaction", owner="ann", instant=INSTANT)
        with pytest.raises(Refused, match="is for the tables of ann") as refused:
            sender.submit(table=table.id, action="compaction", owner="bob")

    assert refused.value.code in ("forbidden", "")
    assert the_operation(store, table).owner == "ann"


def test_an_operation_that_waits_is_moved_and_follows_its_table_no_more(
    sender: Any, store: SqlStore, table: Table
) -> None:
    sender.submit(table=table.id, action="compaction")
    number = the_operation(store, table).id

    sender.change(number, priority=50, queue="vip", owner="carol")
    store.tables.change(table.id, TableChanges(priority=1, queue="slow", owner="bob"), now=store.clock.now())

    moved = the_operation(store, table)
    assert (moved.priority, moved.queue, moved.owner) == (50, "vip", "carol")
    assert next(one.event.kind for one in store.events.list(operation=number).items) == "operation.changed"
    [entry] = store.audit.list(AuditFilter(action="operation.change"), limit=9, cursor=None).items
    assert entry.request.before == {"priority": 0, "queue": "default", "owner": "default"}
    assert entry.answer is not None
    assert entry.answer.after == {"priority": 50, "queue": "vip", "owner": "carol"}


def test_what_does_not_wait_is_not_moved(sender: Any, context: ApiContext, store: SqlStore, table: Table) -> None:
    sender.submit(table=table.id, action="compaction")
    context.services.operations.end(the_operation(store, table).id, by="ann")

    with pytest.raises(Refused, match="is canceled") as refused:
        sender.change(the_operation(store, table).id, priority=50)
    assert refused.value.code in ("conflict", "")
    with pytest.raises(Refused, match="nothing is to be changed"):
        sender.change(the_operation(store, table).id)


def test_what_waits_ends_with_the_reason_when_its_action_is_taken_off(
    sender: Any, store: SqlStore, table: Table
) -> None:
    sender.submit(table=table.id, action="compaction")

    sender.change_table(table.id, action_types=["-compaction"])

    operation = the_operation(store, table)
    assert (operation.status, operation.reason) == (Status.DROPPED, taken_off(Action("compaction")))


# What a request may say of an operation, field by field, and how the operation has it.
FIELDS: dict[str, Any] = {
    "instant": INSTANT, "verify_rows": "checksum", "engine": "spark-submit", "resource": "4g:8g", "parallelism": 7,
    "priority": 50, "queue": "vip", "owner": "carol", "retry_on_error": False, "dry_run": True,
}  # fmt: skip
UNSAID: dict[str, Any] = {
    "verify_rows": None, "engine": "spark", "resource": None, "parallelism": None, "priority": 0, "queue": "default",
    "owner": "default", "retry_on_error": True, "dry_run": None,
}  # fmt: skip


def said(operation: Operation) -> dict[str, Any]:
    """What the operation has of the fields of a request."""
    parameters = operation.process.parameters
    found = {name: parameters.get(name) for name in ("verify_rows", "resource", "parallelism", "dry_run")}
    found |= {name: getattr(operation, name) for name in ("priority", "queue", "owner", "retry_on_error", "instant")}
    number = found["parallelism"]
    return found | {"engine": operation.process.engine, "parallelism": None if number is None else int(str(number))}


@pytest.mark.parametrize("interface", WITH_FORM)
def test_each_field_of_a_request_can_be_given_and_is_stored_alone(
    interface: str, context: ApiContext, store: SqlStore, table: Table
) -> None:
    with sending(context, interface) as sender:
        for field, value in FIELDS.items():
            sender.submit(table=table.id, action="clean", **{field: value})
            [newest, *_] = store.operations.of_table(table.id, recent=9)
            assert said(newest) | {"instant": ""} == UNSAID | {field: value} | {"instant": ""}, field
            assert (newest.instant == INSTANT) is (field == "instant")
            context.services.operations.end(newest.id, by="ann")


def test_the_fields_above_are_all_that_a_request_has_but_the_table_and_what_forms_cannot_give() -> None:
    named = {"table", "location", "action"}

    assert set(FIELDS) | named | {"options", "confirm"} == set(names_of(OperationRequest))


@pytest.mark.parametrize("interface", WITH_FORM)
def test_resources_that_make_no_sense_are_refused_by_name(interface: str, context: ApiContext, table: Table) -> None:
    with sending(context, interface) as sender:
        for field, value in (("resource", "lots"), ("resource", "4g:4g; rm"), ("parallelism", 1_000_001)):
            with pytest.raises(Refused, match=field):
                sender.submit(table=table.id, action="compaction", **{field: value})

    assert context.services.operations.of_table(table.id) == []


REPEATS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"options": {"hoodie.compaction.target.io": "512"}}, {"options": {"hoodie.compaction.target.io": "1024"}}),
    ({}, {"engine": "spark-submit"}),
    ({"queue": "slow"}, {"queue": "vip"}),
    ({}, {"retry_on_error": False}),
    ({"retry_on_error": False}, {"retry_on_error": True}),
    ({}, {"parallelism": 7}),
]


@pytest.mark.parametrize(("first", "then"), REPEATS)
def test_a_repeat_that_says_something_else_changes_what_waits(
    sender: Any, store: SqlStore, table: Table, first: dict[str, Any], then: dict[str, Any]
) -> None:
    plan: dict[str, Any] = {"table": table.id, "action": "compaction", "instant": INSTANT}
    sender.submit(**plan, **first)
    sender.submit(**plan)  # what it leaves out stays

    sender.submit(**plan, **then)

    operation = the_operation(store, table)
    shown = said(operation) | {"options": operation.process.parameters.get("options")}
    assert {name: shown[name] for name in then} == then
    changed = [
        one.event for one in store.events.list(operation=operation.id).items if one.event.kind.endswith("changed")
    ]
    assert [one.message.rpartition(": ")[2] for one in changed] == [*then]


@pytest.mark.parametrize(("first", "then"), REPEATS)
def test_a_repeat_that_says_something_else_is_refused_when_it_runs(
    sender: Any, store: SqlStore, table: Table, first: dict[str, Any], then: dict[str, Any]
) -> None:
    plan: dict[str, Any] = {"table": table.id, "action": "compaction", "instant": INSTANT}
    sender.submit(**plan, **first)
    now = store.clock.now()
    claimed = store.operations.claim(
        the_operation(store, table), holder=InstanceId("one"), now=now, time_to_live=timedelta(hours=1)
    )
    assert claimed is not None
    running = store.operations.save(claimed.moved_to(Status.SUBMITTED, at=now, reason="sent"), now=now)

    sender.submit(**plan, **first)
    with pytest.raises(Refused, match=f"is submitted: its {next(iter(then))} cannot be changed") as refused:
        sender.submit(**plan, **then)

    assert refused.value.code in ("conflict", "")
    assert the_operation(store, table) == running
