# SPDX-License-Identifier: Apache-2.0
"""Rows on request: who asks for it, what follows from unequal rows, and a report that was lost."""

from collections.abc import Mapping
from typing import Any

import pytest

from lakehand.api.operations import OperationRequest
from lakehand.core.loops.alerts import table_causes
from lakehand.core.services.explain import Explainer
from lakehand.core.services.operations import parameters_of
from lakehand.domain.errors import Conflict
from lakehand.domain.operations import Operation, Status
from lakehand.domain.processes import Json
from lakehand.domain.row_checks import RowMode
from lakehand.domain.tables import Table, TableChanges
from lakehand.spi import EngineState
from tests.core.world import World
from tests.domain.words import COMPACTION
from tests.kit.sentences import Sentences

T1, T2 = "20261115110000000", "20261115110000001"
BEFORE: Mapping[str, Json] = {"state": "1", "rows": 100, "from": "data", "checksum": "aa"}
AFTER: Mapping[str, Json] = {"state": "2", "rows": 99, "from": "data", "checksum": "bb"}


def report(outcome: str) -> Mapping[str, Json]:
    text: Mapping[str, Json] = {"mode": "checksum", "outcome": outcome, "reason": "100 rows, then 99"}
    return {"verified_rows": {**text, "before": BEFORE, "after": AFTER}}


def begun(world: World, **properties: str) -> Table:
    """A table with a plan that an engine has now."""
    table = world.add_table(properties={"verify-rows": "checksum", **properties})
    world.tables.plan(table.location, T1)
    world.turn()
    world.turn()
    return table


def ended(world: World, table: Table, state: EngineState, **status: Any) -> Operation:
    world.engine.says(state, **status)
    world.turn()
    return world.the_operation(table)


def asked(world: World) -> Any:
    """What the newest work says about rows."""
    return list(world.engine.works.values())[-1].parameters.get("verify_rows")


def troubles(world: World) -> Any:
    then = world.clock.now()
    return world.store.alerts.troubles(unreadable_since=then, unknown_since=then, lost_since=then, limit=10)


def test_a_table_that_asks_for_nothing_has_its_rows_not_compared(world: World) -> None:
    begun(world, **{"verify-rows": "off"})

    assert asked(world) is None


def test_the_property_of_a_table_reaches_the_job(world: World) -> None:
    table = begun(world)

    assert asked(world) == {"mode": "checksum"}
    assert world.the_operation(table).process.parameters["verify_rows"] == {"mode": "checksum"}


@pytest.mark.parametrize(("table", "request_", "counts"), [
    ("off", RowMode.COUNT, "count"), ("count", RowMode.CHECKSUM, "checksum"), ("checksum", RowMode.COUNT, "checksum"),
])  # fmt: skip
def test_a_request_can_only_raise_what_the_table_has(world: World, table: str, request_: RowMode, counts: str) -> None:
    known = world.add_table(properties={"verify-rows": table})
    world.tables.plan(known.location, T1)
    world.operations.add(known, OperationRequest(action=COMPACTION, instant=T1, verify_rows=request_), by="ana")
    world.turn()

    assert asked(world) == {"mode": counts}


def test_a_stored_operation_without_the_comparison_is_not_taken_for_one_with_it(world: World) -> None:
    table = world.add_table()
    world.operations.add(table, OperationRequest(action=COMPACTION, instant=T1), by="ana")

    with pytest.raises(Conflict, match="verify_rows"):
        world.operations.add(
            table, OperationRequest(action=COMPACTION, instant=T1, verify_rows=RowMode.COUNT), by="ana"
        )


def test_a_job_is_given_each_field_of_the_request_and_further_parameters_can_set_none_of_them() -> None:
    flags: Mapping[str, Json] = {"dry_run": True, "confirm": True, "verify_rows": "off"}
    more = {"options": {"a": "b"}, "cores": 2, **flags}

    found = parameters_of(OperationRequest(action=COMPACTION, verify_rows=RowMode.COUNT, table=1), more)

    assert found == {"options": {"a": "b"}, "cores": 2, "verify_rows": "count", "mode": "plan-and-execute"}
    assert type(found["verify_rows"]) is str


def test_a_wrong_value_is_shown_and_nothing_runs(world: World, sentences: Sentences) -> None:
    table = begun(world, **{"verify-rows": "sometimes"})

    assert world.engine.works == {}
    found = {"value": "sometimes", "values": "off, count, checksum"}
    sentences.check("no such way to compare rows", world.the_operation(table).reason, **found)


def test_equal_rows_are_a_success_with_the_numbers_in_the_result(world: World) -> None:
    table = begun(world)
    world.tables.complete(table.location, T1)

    done = ended(world, table, EngineState.SUCCEEDED, result=report("equal"))

    assert (done.status, done.result["files"]) == (Status.SUCCEEDED, 1)
    assert done.result["verified_rows"] == report("equal")["verified_rows"]


def test_unequal_rows_fail_the_operation_and_pause_the_table_at_once(world: World, sentences: Sentences) -> None:
    table = begun(world)
    world.tables.complete(table.location, T1)
    world.tables.plan(table.location, T2)

    failed = ended(world, table, EngineState.SUCCEEDED, result=report("unequal"))

    assert failed.status is Status.FAILED
    assert failed.failure is not None
    assert (failed.failure.reason, failed.run_times) == ("rows-differ", 1)
    assert failed.result["verified_rows"]["before"]["rows"] == 100  # type: ignore[index,call-overload]
    paused = world.store.tables.get(table.id)
    assert paused.paused
    found = {"operation": failed.id, "action": "compaction", "before": 100, "after": 99}
    sentences.check("paused because of its rows", paused.pause_reason, **found)
    world.clock.pass_by(hours=1)
    world.turn()
    assert len(world.engine.works) == 1  # the second plan does not run


def test_unequal_rows_count_although_the_table_shows_no_effect(world: World) -> None:
    table = begun(world)

    failed = ended(world, table, EngineState.SUCCEEDED, result=report("unequal"))

    assert (failed.status, world.store.tables.get(table.id).paused) == (Status.FAILED, True)


def test_the_alert_is_open_until_somebody_resumes_the_table(world: World) -> None:
    table = begun(world)
    ended(world, table, EngineState.SUCCEEDED, result=report("unequal"))

    [cause] = table_causes(troubles(world))
    assert (cause.key, cause.severity) == (f"rows-differ:{table.id}", "critical")
    assert f"lakehand tables resume {table.id}" in cause.message

    world.store.tables.change(table.id, TableChanges(paused=False), now=world.clock.now())
    assert "rows-differ" not in {str(one.kind) for one in table_causes(troubles(world))}
    assert world.store.tables.get(table.id).pause_reason == ""


def test_a_table_that_a_person_paused_is_no_alert(world: World) -> None:
    table = world.add_table()
    world.store.tables.change(table.id, TableChanges(paused=True), now=world.clock.now())

    assert list(table_causes(troubles(world))) == []


def test_explain_says_why_the_table_is_paused(world: World, sentences: Sentences) -> None:
    table = begun(world)
    ended(world, table, EngineState.SUCCEEDED, result=report("unequal"))

    explained = Explainer(store=world.store, plugins=world.plugins, waits=lambda *_: {}).explain(table.id)

    why = world.store.tables.get(table.id).pause_reason
    sentences.check("the table is paused with a reason", explained.summary, why=why)
    assert any(why in one.now for one in explained.actions)


def test_a_lost_report_is_repeated_by_an_attempt_that_only_compares(world: World) -> None:
    table = begun(world)
    world.tables.complete(table.location, T1)
    notes = {"verified_rows": {"state": "1", "rows": 100}}

    waiting = ended(world, table, EngineState.LOST, message="the driver died", progress={"notes": notes})

    assert (waiting.status, waiting.failure and waiting.failure.reason) == (Status.PENDING, "rows-unread")
    world.clock.pass_by(hours=1)
    world.turn()
    assert asked(world) == {
        "mode": "checksum", "only": True, "shown": "completed", "numbers": {"files": 1}, "notes": notes,
    }  # fmt: skip
    done = ended(world, table, EngineState.SUCCEEDED, result=report("equal"))
    assert (done.status, done.result["files"], done.run_times) == (Status.SUCCEEDED, 1, 2)


def test_the_first_reading_survives_a_second_loss(world: World) -> None:
    table = begun(world)
    world.tables.complete(table.location, T1)
    notes = {"verified_rows": {"state": "1", "rows": 100}}
    ended(world, table, EngineState.LOST, progress={"notes": notes})
    world.clock.pass_by(hours=1)
    world.turn()

    ended(world, table, EngineState.LOST, progress={"notes": {"phase": "nothing of use"}})
    world.clock.pass_by(hours=1)
    world.turn()

    assert asked(world)["notes"] == notes


def test_a_plan_that_left_the_timeline_before_the_comparison_still_counts_as_done(world: World) -> None:
    table = begun(world)
    world.tables.complete(table.location, T1)
    ended(world, table, EngineState.LOST)
    world.tables.completed[table.location].clear()  # archived
    world.clock.pass_by(hours=1)
    world.turn()

    done = ended(world, table, EngineState.SUCCEEDED, result=report("not-compared"))

    assert (done.status, done.reason) == (Status.SUCCEEDED, "completed")


def test_rows_that_can_never_be_read_fail_the_operation_and_pause_the_table(world: World) -> None:
    table = begun(world)
    world.tables.complete(table.location, T1)

    for _ in range(10):
        one = ended(world, table, EngineState.FAILED, message="a data file is missing")
        world.clock.pass_by(hours=2)
        world.turn()

    assert (one.status, one.failure and one.failure.reason) == (Status.FAILED, "rows-unread")
    assert "a data file is missing" in world.store.tables.get(table.id).pause_reason


def test_a_job_that_never_compares_ends_with_that_said(world: World, sentences: Sentences) -> None:
    table = begun(world)
    world.tables.complete(table.location, T1)

    done = ended(world, table, EngineState.SUCCEEDED)

    assert done.status is Status.SUCCEEDED
    verified: Any = done.result["verified_rows"]
    assert (verified["mode"], verified["outcome"]) == ("checksum", "not-compared")
    sentences.check("a job that does not compare rows", verified["reason"])


def test_a_cancel_during_the_comparison_ends_it_with_that_said(world: World, sentences: Sentences) -> None:
    table = begun(world)
    world.tables.complete(table.location, T1)
    world.operations.end(world.the_operation(table).id, by="ana")

    done = ended(world, table, EngineState.CANCELED)

    assert done.status is Status.SUCCEEDED
    verified: Any = done.result["verified_rows"]
    sentences.check("a comparison that was canceled", verified["reason"])
