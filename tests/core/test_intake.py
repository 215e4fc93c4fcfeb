# SPDX-License-Identifier: Apache-2.0
"""A notification is stored or refused with a reason; there is never more than one operation per plan."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakehand.core.intake.notifications import IntakeCache, Receipt
from lakehand.core.rate_limits import RateLimiter
from lakehand.domain.actions import Action, actions
from lakehand.domain.notifications import Notification
from lakehand.domain.operations import Operation
from tests.core.world import CLEAN, NOON, World
from tests.domain.words import COMPACTION
from tests.store.given import table_count

T1 = "20261115110000000"


def notify(world: World, **values: Any) -> Receipt:
    defaults: dict[str, Any] = {
        "source": "wire",
        "location": "/lake/trips",
        "action": COMPACTION,
        "instants": (T1,),
        "table_name": "trips",
    }
    [receipt] = world.intake.record([Notification(**{**defaults, **values})])
    return receipt


def stored(world: World) -> list[Operation]:
    return [o for t in world.store.tables.by_locations(["/lake/trips"]).values()
            for o in world.store.operations.of_table(t.id, recent=99)]  # fmt: skip


def messages(world: World, kind: str) -> list[tuple[str, int]]:
    return [(e.event.message, e.times) for e in world.store.events.list(kind=kind).items]


def test_the_same_request_a_thousand_times_is_one_operation(world: World) -> None:
    for _ in range(10):
        world.intake.record(
            [Notification(source="wire", location="file:/lake/trips/", action=COMPACTION, instants=(T1,))] * 100
        )
    assert [o.instant for o in stored(world)] == [T1]


def test_a_first_compact_request_registers_the_table_for_compaction_alone(world: World) -> None:
    receipt = notify(world)
    assert receipt.stored
    assert receipt.table is not None
    assert world.store.tables.get(receipt.table).spec.action_types == {COMPACTION}


def test_a_request_for_an_action_that_is_not_wanted_is_a_hint_that_explains(world: World) -> None:
    notify(world, instants=())
    assert notify(world, action=CLEAN).stored
    assert stored(world) == []
    [(message, _)] = messages(world, "intake.hint")
    assert "--actions +clean" in message


def test_a_clean_request_registers_no_stranger(world: World) -> None:
    receipt = notify(world, action=CLEAN)
    assert not receipt.stored
    assert "lakehand tables add /lake/trips" in receipt.message


@pytest.mark.parametrize(
    "location", ["/etc/passwd", "/lake/../etc", "/lakeside/t", "/lake/%2e%2e/x", "s3://lake/t", "", "lake/t"]
)
def test_a_location_outside_of_the_warehouses_is_refused_and_reported(world: World, location: str) -> None:
    assert not notify(world, location=location).stored
    assert len(messages(world, "intake.refused")) == 1
    assert table_count(world.store) == 0


def test_equal_problems_are_one_event_with_a_count(world: World) -> None:
    for _ in range(7):
        notify(world, location="/etc/t")
    [(_, times)] = messages(world, "intake.refused")
    assert times == 7


@pytest.mark.parametrize(
    "instant", ["", "x", "2026", "' OR 1=1 --", "20261115110000", "29991231235959000", "２０２６１１１５１１００００"]
)
def test_only_instants_that_can_be_true_become_operations(world: World, instant: str) -> None:
    notify(world, instants=(instant,))
    assert [o.instant for o in stored(world)] == ([instant] if instant == "20261115110000" else [])


def test_a_flood_of_instants_is_bounded(world: World) -> None:
    notify(world, instants=tuple(f"202611151100{n:05d}" for n in range(1500)))
    table = world.store.tables.by_locations(["/lake/trips"])["/lake/trips"]
    found = [o.instant for o in world.store.operations.of_table(table.id, recent=0)]
    assert found == [f"202611151100{n:05d}" for n in range(999, 899, -1)], "the newest hundred of the first thousand"


def test_extra_parameters_pass_by_allow_list_only(world: World) -> None:
    extra = {
        "hoodie.compaction.target.io": "512",
        "spark.jars": "http://evil/x.jar",
        "hoodie.datasource.write.payload.class": "evil.Payload",
        "hoodie.parquet.max.file.size": "1; DROP TABLE x",
    }
    notify(world, extra_parameters=extra)
    [operation] = stored(world)
    assert operation.process.parameters["options"] == {"hoodie.compaction.target.io": "512"}
    assert len(messages(world, "intake.parameter-refused")) == 3


def test_a_flood_of_new_tables_is_stopped_and_known_tables_are_not(world: World) -> None:
    notify(world)
    object.__setattr__(world.intake, "rate_limiter", RateLimiter(per_minute=2))
    receipts = [notify(world, location=f"/lake/t{n}").stored for n in range(4)]
    assert receipts == [True, True, False, False]
    assert notify(world).stored


def test_the_bound_on_new_tables_is_per_minute() -> None:
    rate_limiter = RateLimiter(per_minute=1)
    times = [NOON, NOON + timedelta(seconds=30), NOON + timedelta(seconds=61)]
    assert [rate_limiter.lets_pass(t) for t in times] == [True, False, True]


def test_one_bad_notification_harms_no_other_in_its_batch(world: World) -> None:
    good = Notification(source="wire", location="/lake/trips", action=COMPACTION, instants=(T1,))
    receipts = world.intake.record(
        [Notification(source="wire", location="/etc"), good, Notification(source="callback", location="\x00")]
    )
    assert [r.stored for r in receipts] == [False, True, False]


def test_a_callback_may_bring_the_actions_of_an_unknown_table(world: World) -> None:
    receipt = notify(world, source="callback", action=None, instants=(), register=actions(["compaction", "clean"]))
    assert receipt.table is not None
    assert world.store.tables.get(receipt.table).spec.action_types == {COMPACTION, CLEAN}


def test_an_action_that_nobody_knows_is_only_a_hint(world: World) -> None:
    notify(world, instants=())
    notify(world, action=Action("frobnicate"))
    assert stored(world) == []


def test_names_that_are_too_long_or_unprintable_are_refused(world: World) -> None:
    assert not notify(world, table_name="x" * 251).stored
    assert not notify(world, db_name="a\x00b").stored


def test_a_remembered_table_that_was_removed_is_not_brought_back_by_a_callback(world: World) -> None:
    notify(world)
    intake = replace(world.intake, cache=IntakeCache(store=world.store, keep=timedelta(hours=1)))
    callback = Notification(source="callback", location="/lake/trips", table_name="trips")
    [known] = intake.record([callback])
    assert known.table is not None
    world.store.tables.remove(known.table, now=NOON)

    [receipt] = intake.record([callback])

    assert not receipt.stored
    assert world.store.tables.get(known.table).removed
