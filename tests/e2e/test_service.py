# SPDX-License-Identifier: Apache-2.0
"""A whole service with a real driver: it is told of commits in every format, and is killed while it serves them."""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from tests import hudi_tables, small_tables
from tests.e2e.conftest import Start
from tests.e2e.formats import DAMAGES, Damage, hadoop_catalog, paimon_catalog, table_reference
from tests.kit.polling import wait_for
from tests.kit.service import TLS, RunningService
from tests.rest.parts import wire

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
DAY = 86400
HUDI_OPTIONS = {**hudi_tables.scheduling_compaction(2), "hoodie.metadata.enable": "false"}
# Two commits are enough for a rewrite, and one is not.
PROPERTIES: Mapping[str, dict[str, str]] = {
    "hudi": {},
    "iceberg": {"iceberg.rewrite-data.min-input-files": "2"},
    "delta": {"delta.optimize.min-files": "2"},
    "paimon": {"paimon.compact.min-files": "2"},
    "lance": {"lance.compact.min-fragments": "2"},
}


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Somebody's application that writes one table, which is not known to the service as its writer."""

    spark: SparkSession
    damage: Damage
    path: Path

    def commit(self, number: int) -> None:
        WRITERS[self.damage.format](self.spark, self.path, number)

    def facts(self) -> object:
        return READERS.get(self.damage.format, self.damage.read)(self.spark, self.path)

    def notify(self, service: RunningService) -> None:
        """By Hudi's client with the plan that it has made, else by an event."""
        if self.damage.format == "hudi":
            [(instant, _)] = hudi_tables.pending(self.path)
            request = wire(basepath=str(self.path), table_name=self.path.name, instant=instant)
            answer = httpx.get(service.url + request, timeout=30, verify=TLS).json()
            assert answer["stored"] is True, answer
            return
        event = {"specversion": "1.0", "type": "dev.lakehand.table.committed", "source": "writer", "id": self.path.name}
        answer = service.post("/api/v1/commits", {**event, "data": {"location": str(self.path)}})
        assert answer["stored"] == 1, answer


def write_hudi(spark: SparkSession, path: Path, number: int) -> None:
    hudi_tables.upsert(spark, path, number=number, rows=4, options=HUDI_OPTIONS)


def write_iceberg(spark: SparkSession, path: Path, number: int) -> None:
    own, name = hadoop_catalog(spark, path)
    own.sql(f"CREATE TABLE IF NOT EXISTS {name} (id bigint, v bigint, note string) USING iceberg")
    own.range(number, number + 1, 1, 1).selectExpr("id", "id * 3 as v", "'note' as note").writeTo(name).append()


def write_paimon(spark: SparkSession, path: Path, number: int) -> None:
    own, name = paimon_catalog(spark, path)
    own.sql(f"CREATE DATABASE IF NOT EXISTS {name.rsplit('.', 1)[0]}")
    own.sql(f"CREATE TABLE IF NOT EXISTS {name} (id bigint, v bigint, note string) TBLPROPERTIES ('write-only'='true')")
    own.sql(f"INSERT INTO {name} VALUES ({number}, {3 * number}, 'note')")


def write_delta(_: SparkSession, path: Path, number: int) -> None:
    small_tables.delta(path, commits=1)


def write_lance(_: SparkSession, path: Path, number: int) -> None:
    import lance

    lance.write_dataset(small_tables.rows(), str(path), mode="append" if number > 1 else "create")


def read_delta(_: SparkSession, path: Path) -> Any:
    import deltalake

    return deltalake.DeltaTable(str(path)).to_pyarrow_table().sort_by("id").to_pylist()


def read_lance(_: SparkSession, path: Path) -> Any:
    import lance

    return lance.dataset(str(path)).to_table().sort_by("id").to_pylist()


WRITERS: Mapping[str, Callable[[SparkSession, Path, int], None]] = {
    "hudi": write_hudi, "iceberg": write_iceberg, "paimon": write_paimon, "delta": write_delta, "lance": write_lance,
}  # fmt: skip
READERS: Mapping[str, Callable[[SparkSession, Path], Any]] = {"delta": read_delta, "lance": read_lance}


def register(service: RunningService, writer: Writer) -> None:
    """A table that the service looks at once, and then only when somebody tells of a commit."""
    properties = {**PROPERTIES[writer.damage.format], "verify-rows": "checksum"}
    table = service.add_table(
        writer.path, writer.damage.action, format=writer.damage.format, properties=properties, heartbeat_timeout=DAY
    )
    wait_for(lambda: evaluated_at(service, table, writer.damage.action), f"the first look at {writer.path.name}", 60)


def evaluated_at(service: RunningService, table: int, action: str) -> str | None:
    actions = service.get(f"/api/v1/tables/{table}/explain")["actions"]
    return next((str(one["evaluated_at"]) for one in actions if one["action"] == action and one["evaluated_at"]), None)


def stop_driver_at_work(service: RunningService) -> str:
    """Freezes the driver in the middle of a job, whichever that is, and returns the job's handle."""
    running = service.spool / "running"

    def caught() -> str | None:
        if service.driver() is None or not list(running.glob("*.json")):
            return None
        signal_driver(service, signal.SIGSTOP)
        if found := list(running.glob("*.json")):  # else it has ended meanwhile
            return found[0].stem
        signal_driver(service, signal.SIGCONT)
        return None

    return wait_for(caught, "a job to run", pace=0.01)


def signal_driver(service: RunningService, number: signal.Signals) -> None:
    driver = service.driver()
    assert driver is not None
    os.killpg(os.getpgid(driver.pid), number)


def attempt_with(service: RunningService, handle: str) -> dict[str, Any]:
    """The operation one of whose attempts has this handle."""
    details = [service.get(f"/api/v1/operations/{one['id']}") for one in service.operations()]
    [found] = [one for one in details if handle in {attempt["handle"] for attempt in one["attempt_list"]}]
    return dict(found)


def test_commits_in_every_format_are_served_once_by_a_service_that_is_killed_meanwhile(
    spark: SparkSession, lake: Path, start_service: Start
) -> None:
    service = start_service(lease="180")  # the driver's clock goes on while it is frozen
    writers = [Writer(spark=spark, damage=one, path=table_reference(lake, name, name)) for name, one in DAMAGES.items()]
    for writer in writers:
        writer.commit(1)
        register(service, writer)
    assert service.operations() == [], "nobody needs anything yet"
    for writer in writers:
        writer.commit(2)
    hudi = next(one for one in writers if one.damage.format == "hudi")
    hudi.commit(3)  # its writer plans a compaction
    before = {writer.path: writer.facts() for writer in writers}

    for writer in writers:
        writer.notify(service)
    handle = stop_driver_at_work(service)
    service.kill()
    service.start()
    wait_for(lambda: attempt_with(service, handle)["status"] == "running", "the service to find its attempt again")
    boot = service.driver_facts()["boot"]
    signal_driver(service, signal.SIGCONT)

    for writer in writers:
        done = service.wait_status(writer.path, "succeeded", "failed", action=writer.damage.action)
        assert (done["status"], done["attempts"]) == ("succeeded", 1), done
        rows = service.get(f"/api/v1/operations/{done['id']}")["result"]["verified_rows"]
        assert rows["outcome"] == "equal", rows
        assert rewrites_of(writer) == 1, done
    assert {writer.path: writer.facts() for writer in writers} == before
    assert service.driver_facts()["boot"] == boot, "one driver served them all, and outlived the service"


def rewrites_of(writer: Writer) -> int:
    if writer.damage.format == "lance":
        return len(list(writer.path.glob("_versions/*.manifest"))) - 2
    return writer.damage.rewrites(writer.path)
