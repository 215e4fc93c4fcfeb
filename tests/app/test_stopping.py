# SPDX-License-Identifier: Apache-2.0
"""What a process leaves behind when it stops: with its engine stopped everything is handed over, else it is kept."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.app.home import take_identity
from lakehand.app.settings import load
from lakehand.app.wiring import Service
from lakehand.core.plugins.proxies import proxy_of
from lakehand.core.plugins.registry import Plugins
from lakehand.domain.operations import InstanceState, Operation, Status
from lakehand.domain.tables import TableId, TableSpec
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.spi import EngineState
from lakehand.store import open_store
from tests.core.world import HUDI, PretendEngine, PretendFactory, PretendTables
from tests.domain.words import COMPACTION
from tests.kit.polling import wait_for

T1 = "20261115110000000"
Build = Callable[..., "StoppingService"]


class StoppableEngine(PretendEngine):
    """Pretends to be a driver that dies with all that runs."""

    def stop(self) -> None:
        self.says(EngineState.LOST, message="the driver was stopped")


class StoppingService:
    def __init__(self, folder: Path, file: Path, **settings: object) -> None:
        (folder / "home").mkdir(mode=0o700)
        self.location = str(folder / "lake" / "trips")
        Path(self.location).mkdir(parents=True)
        self.tables, self.engine = PretendTables(), StoppableEngine()
        wanted = load({"home": folder / "home", "warehouses": [str(folder / "lake")], "dashboard": False, **settings})
        factories = {(HUDI, COMPACTION): proxy_of(PretendFactory(self.tables))}
        plugins = Plugins(
            formats={HUDI: proxy_of(self.tables)}, factories=factories, engines={"spark": proxy_of(self.engine)}
        )
        self.store = open_store(f"sqlite:///{file}")
        self.service = Service(wanted, take_identity(wanted.home), self.store, plugins, PrometheusMetrics())

    def run_operation(self) -> None:
        """Until one operation runs on the engine."""
        self.tables.plan(self.location, T1)
        spec = TableSpec(location=self.location, format=HUDI, action_types=frozenset({COMPACTION}))
        self.store.tables.add(spec, now=self.store.clock.now())
        self.service.start()
        wait_for(lambda: self.engine.works, "the submit")
        self.engine.says(EngineState.RUNNING)
        wait_for(lambda: self.operation.status is Status.RUNNING, "the monitor")

    @property
    def operation(self) -> Operation:
        [operation] = self.store.operations.of_table(TableId(1), recent=10)
        return operation

    @property
    def state(self) -> str | None:
        [instance] = self.store.instances.list()
        return instance.state


@pytest.fixture
def build(sqlite_template: Path, tmp_path: Path) -> Iterator[Build]:
    made: list[StoppingService] = []

    def build(**settings: object) -> StoppingService:
        file = Path(shutil.copyfile(sqlite_template, tmp_path / "lakehand.db"))
        made.append(StoppingService(tmp_path, file, **settings))
        return made[-1]

    yield build
    for one in made:
        one.store.close()


def test_what_an_engine_runs_is_kept_for_the_next_start(build: Build) -> None:
    running = build()
    running.run_operation()

    running.service.finish_work()
    running.service.stop()

    kept = running.operation
    assert (kept.status, bool(kept.lease), running.engine.canceled) == (Status.RUNNING, True, [])
    assert running.state == InstanceState.STOPPED


def test_what_a_stopped_engine_ran_is_verified_and_handed_over(build: Build) -> None:
    running = build(stop_driver=True)
    running.run_operation()

    running.service.stop()

    over = running.operation
    assert (over.status, over.lease, over.failure and over.failure.reason) == (Status.PENDING, None, "handed-over")
    assert running.state == InstanceState.STOPPED


def test_what_a_stopped_engine_had_committed_has_succeeded(build: Build) -> None:
    running = build(stop_driver=True)
    running.run_operation()
    running.tables.complete(running.location, T1)

    running.service.stop()

    assert running.operation.status is Status.SUCCEEDED


def test_the_drain_of_sigterm_waits_for_running_work(build: Build) -> None:
    running = build(drain_timeout=timedelta(minutes=5))
    running.run_operation()
    running.tables.complete(running.location, T1)
    running.engine.says(EngineState.SUCCEEDED)

    running.service.finish_work()

    assert running.operation.status is Status.SUCCEEDED
    assert running.service.readiness()["instance"] == "draining, asked by SIGTERM"
    running.service.stop()
