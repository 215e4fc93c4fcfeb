# SPDX-License-Identifier: Apache-2.0
"""A table whose metadata is torn is unreadable in the service, as in ``lakehand check``, and recovers by itself."""

import logging
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from lakehand.app import wiring
from lakehand.app.settings import load
from lakehand.app.wiring import Service
from lakehand.core.ports import TableFilter
from lakehand.domain.fleet import TableState
from lakehand.domain.tables import Format, TableId, TableSpec
from lakehand.store import migrate
from tests import small_tables
from tests.formats.hudi.runtime import EVENTS_V9, ORDERS_V9
from tests.formats.test_hostile_files import FILES, FORMATS
from tests.kit.polling import wait_for

# More tables of Hudi, with plans: one that has begun, and one of another action.
MADE: dict[str, tuple[str, Callable[[Path], Path]]] = {
    **{name: (name, make) for name, (_, make) in FORMATS.items()},
    "begun": ("hudi", lambda path: begun(small_tables.hudi(path))),
    "clustering": ("hudi", lambda path: small_tables.hudi(path, "events_v9")),
}
# Iceberg's manifests never change, and are cached.
TORN = [
    *((name, file) for name, file in FILES if not file.endswith("-m0.avro")),
    ("begun", f".hoodie/timeline/{ORDERS_V9}.compaction.inflight"),
    ("clustering", f".hoodie/timeline/{EVENTS_V9}.clustering.requested"),
]


def begun(table: Path) -> Path:
    """Its plan, as one that Hudi has begun to execute; some versions repeat the plan in that file."""
    plan = table / ".hoodie" / "timeline" / f"{ORDERS_V9}.compaction.requested"
    shutil.copy(plan, plan.with_suffix(".inflight"))
    return table


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, TableId]]]:
    """A service with a sound table of each format. All tests leave them sound."""
    top = tmp_path_factory.mktemp("torn")
    (top / "home").mkdir(mode=0o700)
    flags = {"home": top / "home", "database": f"sqlite:///{top / 'service.db'}", "warehouses": [str(top / "lake")]}
    settings = load(flags)
    migrate.upgrade(settings.database_url)
    service = wiring.build(settings)
    (top / "lake").mkdir()
    made = {name: make(top / "lake" / name) for name, (_, make) in MADE.items()}
    specs = {name: TableSpec(location=str(path), format=Format(MADE[name][0])) for name, path in made.items()}
    yield service, {name: service.tables.register(spec)[0].id for name, spec in specs.items()}
    service.stop()
    service.store.close()


def evaluate(service: Service, table: TableId) -> None:
    """As a person asks for it, and as the prober does at a heartbeat."""
    service.tables.evaluate_now(table)
    for _ in range(2):
        wait_for(partial(are_stored, service), "all evaluations to be stored")
    service.store.probes.defer([table], until=service.store.clock.now() - timedelta(seconds=1))
    service.prober.run_once()


def are_stored(service: Service) -> bool:
    service.coordinator.run_once()
    return not service.coordinator.unfinished


def state_of(service: Service, table: TableId) -> TableState:
    shown = service.fleet.tables(TableFilter(location=service.tables.get(table).location))
    return shown.items[0].state


def cut(file: Path) -> bytes:
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] + (b"" if len(whole) > 1 else b"x"))
    return whole


@pytest.mark.parametrize(("name", "pattern"), TORN)
def test_a_table_with_a_torn_file_is_unreadable_until_the_file_is_whole_again(
    served: tuple[Service, dict[str, TableId]], name: str, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    service, table = served[0], served[1][name]
    evaluate(service, table)
    assert state_of(service, table) is not TableState.UNREADABLE
    folder = Path(service.tables.get(table).location)
    torn = {file: cut(file) for file in sorted(folder.glob(pattern))}
    caplog.clear()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            evaluate(service, table)
        assert state_of(service, table) is TableState.UNREADABLE
        later = service.store.clock.now() + timedelta(seconds=1)
        troubles = service.store.alerts.troubles(
            unreadable_since=later, unknown_since=later, lost_since=later, limit=10
        )
        assert [one.table for one in troubles.unreadable] == [table]
        assert str(folder) in troubles.unreadable[0].reason
        for file, whole in torn.items():
            file.write_bytes(whole)
        evaluate(service, table)
    assert state_of(service, table) is not TableState.UNREADABLE
    said = [one.getMessage() for one in caplog.records if one.getMessage().startswith("a table")]
    assert said == ["a table cannot be read", "a table can be read again"]
    assert [one for one in caplog.records if one.exc_info and one.levelno >= logging.WARNING] == []
