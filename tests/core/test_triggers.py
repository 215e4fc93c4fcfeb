# SPDX-License-Identifier: Apache-2.0
"""A table that nobody writes any more is decided upon when time alone makes it due: real Hudi tables, passed time."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.core.plugins.proxies import proxy_of
from lakehand.core.plugins.registry import Plugins
from lakehand.domain.notifications import Notification
from lakehand.domain.tables import Table, TableSpec
from lakehand.formats.hudi import HudiFormat, HudiProcessFactory
from lakehand.spi import Scheduling
from tests.core.world import HUDI, NOON, World
from tests.domain.words import COMPACTION
from tests.formats.hudi.runtime import FILE_LOCK
from tests.formats.triggered import hours, hudi_table
from tests.kit.sentences import Sentences

BY_TIME = {**FILE_LOCK, "hudi.compaction.trigger": "num-or-time", "hudi.compaction.max-age": "1h"}


@pytest.fixture
def silent(world: World, tmp_path: Path) -> Table:
    """Two delta commits of five; the older one is due at 12:15."""
    factory = HudiProcessFactory()
    factory.open({})
    world.plugins = Plugins(
        formats={HUDI: proxy_of(HudiFormat())}, factories={(HUDI, COMPACTION): proxy_of(factory)},
        engines=world.plugins.engines,
    )  # fmt: skip
    world.restart()
    location = str(hudi_table(tmp_path, hours(0.75, 0.5)))
    spec = TableSpec(
        location=location, format=HUDI, action_types=frozenset({COMPACTION}), scheduling=Scheduling.SERVICE,
        properties=BY_TIME,
    )  # fmt: skip
    return world.store.tables.add(spec, now=world.clock.now())[0]


def operations(world: World, table: Table) -> list[Any]:
    return list(world.store.operations.of_table(table.id, recent=9))


def pass_until(world: World, *, hour: int, minute: int) -> None:
    """Minute by minute, each with a turn of the prober and the coordinator."""
    while world.clock.now() < NOON.replace(hour=hour, minute=minute):
        world.clock.pass_by(minutes=1)
        world.look()


def test_a_silent_table_is_compacted_when_its_oldest_change_is_old_enough_and_not_before(
    world: World, silent: Table, sentences: Sentences
) -> None:
    world.look()
    [schedule] = world.store.schedules.of_table(silent.id)
    found = {"commits": 2, "needed": 5, "oldest": "2026-11-15 11:15", "due": "12:15"}
    sentences.check("a table waits for the age of its oldest change", schedule.last_reason, **found)
    assert schedule.due == NOON + timedelta(minutes=15)

    pass_until(world, hour=12, minute=14)
    assert not operations(world, silent)
    pass_until(world, hour=12, minute=15)

    [operation] = operations(world, silent)
    found = {"commits": 2, "oldest": "2026-11-15 11:15", "age": "1h"}
    sentences.check("the oldest change is old enough", operation.process.reason, **found)


def test_neither_a_restart_nor_words_about_nothing_move_that_moment(world: World, silent: Table) -> None:
    world.look()
    pass_until(world, hour=12, minute=5)
    world.restart()
    world.intake.record([Notification(source="callback", location=silent.location)])
    pass_until(world, hour=12, minute=14)

    assert not operations(world, silent)
    pass_until(world, hour=12, minute=15)
    assert len(operations(world, silent)) == 1


def test_what_is_due_by_age_is_admitted_and_stays_one_operation(world: World, silent: Table) -> None:
    world.look()
    pass_until(world, hour=12, minute=15)
    world.turn()
    pass_until(world, hour=13, minute=0)

    [operation] = operations(world, silent)
    assert operation.status == "submitted"
    assert operation.process.parameters["may_plan"] is True
