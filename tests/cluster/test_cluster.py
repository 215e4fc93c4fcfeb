# SPDX-License-Identifier: Apache-2.0
"""Tables of all formats on a real Spark cluster, with both engines, while machines and the service die."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from lakehand.domain.processes import reported_number
from lakehand.engines.spark import SparkEngine
from lakehand.engines.spark_submit import SparkSubmitEngine
from lakehand.spi import EngineContext, EngineState, EngineStatus, ExecuteEngine, Handle, Json, LeaseGrant, Work
from tests.cluster.conftest import Make
from tests.e2e.formats import DAMAGES, Damage, Facts, table_reference
from tests.kit.polling import wait_for
from tests.kit.service import RunningService
from tests.kit.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.long]
# For the warm driver: the applications need some, too.
FEW_CORES = {"spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "600m"}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
}
HOUR = timedelta(hours=1)
ENGINES = ("spark", "spark-submit")
# Beside one table per format and engine: two whose rewrites shuffle, so that a lost worker loses rows on their way.
SHUFFLED: Mapping[str, tuple[Damage, dict[str, str]]] = {
    "ordered": (
        replace(DAMAGES["delta"], action="z-order"),
        {"delta.z-order.columns": "id", "delta.z-order.min-bytes": "1"},
    ),
    "sorted": (
        DAMAGES["iceberg"],
        {"iceberg.rewrite-data.strategy": "sort", "iceberg.rewrite-data.sort-order": "id desc"},
    ),
}
LONG = 600.0  # seconds: a dozen JVMs start on what may be two cores


def spoiled(spark: SparkSession, lake: Path, damage: Damage, engine: str, name: str = "") -> tuple[Damage, Path, Facts]:
    """The name of a table says which engine it gets."""
    name = f"{name or damage.format}_{'alone' if engine == 'spark-submit' else 'warm'}"
    path = table_reference(lake, damage.format, name)
    damage.make(spark, path)
    return damage, path, damage.read(spark, path)


@pytest.mark.timeout(1500)
def test_a_worker_and_the_service_die_in_the_middle_and_each_table_is_rewritten_once_with_either_engine(
    spark: SparkSession, cluster: SparkCluster, make_service: Make, marks: Path
) -> None:
    settings = {"master": cluster.master, **cluster.authentication, **FEW_CORES}
    service = make_service(settings, parallelism="1", max_applications="5", driver_memory="700m")
    lake = service.warehouse
    plain = [spoiled(spark, lake, damage, engine) for damage in DAMAGES.values() for engine in ENGINES]
    shuffled = [spoiled(spark, lake, damage, "spark", name) for name, (damage, _) in SHUFFLED.items()]
    tables = [*plain, *shuffled]
    assert len(tables) == 12
    service.start()
    for damage, path, _ in tables:
        _, properties = SHUFFLED.get(path.name.removesuffix("_warm"), (damage, {}))
        service.add_table(path, damage.action, format=damage.format, properties=properties)
    wait_for(lambda: len(list(marks.iterdir())) == len(tables), "all jobs to be in the middle", LONG)
    handles = {attempt_of(service, damage, path)["handle"] for damage, path, _ in tables if path.name.endswith("alone")}

    assert [path.name for damage, path, _ in tables if damage.rewrites(path)] == [], "committed already"
    assert handles | {"lakehand"} == cluster.applications()
    assert not [line for line in command_lines() if cluster.secret in line], "the secret is in the process list"
    service.kill()
    cluster.kill_worker(0)
    (marks / "go").touch()
    service.start()

    for damage, path, facts in tables:
        ended = service.wait_status(path, "succeeded", "failed", action=damage.action)
        found = (ended["status"], ended["attempts"], damage.rewrites(path), damage.read(spark, path))
        assert found == ("succeeded", 1, 1, facts), f"{path.name}: {ended}"
        assert attempt_of(service, damage, path)["external_id"].startswith("app-"), path.name
    wait_for(lambda: cluster.applications() == {"lakehand"}, "the applications to end")


@pytest.mark.timeout(900)
def test_a_master_is_restarted_and_the_work_of_either_engine_goes_on(cluster: SparkCluster, tmp_path: Path) -> None:
    conf = {f"conf.{key}": value for key, value in cluster.authentication.items()}
    few = {f"conf.{key}": value for key, value in FEW_CORES.items()}
    engines: list[SparkEngine | SparkSubmitEngine] = [SparkEngine(), SparkSubmitEngine()]
    for engine in engines:
        home = tmp_path / engine.name
        home.mkdir()
        engine.open({"master": cluster.master, "driver-memory": "700m", **conf, **few}, EngineContext(home=home))
    try:
        before = [submit(engine, "before", rows=3000, partitions=60, pause=20) for engine in engines]
        wait_for(lambda: all(has_begun(engine, handle) for engine, handle in before), "both to have begun", LONG)
        cluster.kill_master()
        cluster.start_master()
        assert [rows_of(engine, handle) for engine, handle in before] == [3000, 3000]
        cluster.wait_for_workers(2)
        assert rows_of(*submit(engines[1], "after", rows=7)) == 7
    finally:
        for engine in engines:
            engine.stop(timedelta())


@pytest.mark.timeout(600)
def test_executors_of_the_warm_driver_leave_when_it_is_idle_and_come_back_for_the_next_operation(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    engine = SparkEngine()
    settings = {**cluster.authentication, **FEW_CORES, **DYNAMIC}
    conf = {f"conf.{key}": value for key, value in settings.items()}
    engine.open({"master": cluster.master, "driver-memory": "700m", **conf}, EngineContext(home=tmp_path))
    try:
        first = submit(engine, "first", rows=600, partitions=6, pause=20)
        wait_for(lambda: cluster.cores_in_use() == 2, "executors for the first operation")
        assert rows_of(*first) == 600
        wait_for(lambda: cluster.cores_in_use() == 0, "the executors to leave")
        driver = engine.health().facts["application"]
        second = submit(engine, "second", rows=600, partitions=6, pause=20)
        wait_for(lambda: cluster.cores_in_use() == 2, "executors for the second operation")
        assert (rows_of(*second), engine.health().facts["application"]) == (600, driver)
    finally:
        engine.stop(timedelta())


def submit(engine: ExecuteEngine, name: str, **parameters: int) -> tuple[ExecuteEngine, Handle]:
    """As the service does: it is renewed until the engine has a clock that the lease can count from."""
    handle, work = Handle(f"{name}-{engine.name}"), Work(job="probe", parameters=parameters, table="t", location="none")
    engine.submit(work, handle, LeaseGrant(heartbeat_token=engine.heartbeat_token(), time_to_live=HOUR))

    def is_started() -> bool:
        engine.tend()
        engine.renew([handle], LeaseGrant(heartbeat_token=engine.heartbeat_token(), time_to_live=HOUR))
        return engine.status([handle])[handle].state is not EngineState.QUEUED

    wait_for(is_started, f"{engine.name} to start", LONG)
    return engine, handle


def has_begun(engine: ExecuteEngine, handle: Handle) -> bool:
    status = engine.status([handle])[handle]
    assert not status.state.is_over, status
    return reported_number(status.progress.get("tasks_done")) > 0


def rows_of(engine: ExecuteEngine, handle: Handle) -> Json:
    def outcome() -> EngineStatus | None:
        engine.tend()
        status = engine.status([handle])[handle]
        return status if status.state.is_over else None

    ended = wait_for(outcome, f"{handle} to end", LONG)
    assert ended.state is EngineState.SUCCEEDED, ended
    return ended.result["rows"]


def attempt_of(service: RunningService, damage: Damage, path: Path) -> dict[str, str]:
    operation = service.operation(path, damage.action)
    assert operation is not None
    attempts: list[dict[str, str]] = service.get(f"/api/v1/operations/{operation['id']}")["attempt_list"]
    return attempts[-1]


def command_lines() -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found
