# SPDX-License-Identifier: Apache-2.0
"""Small operations beside a large one: in one scheduler pool, in two, and with the large one in its own application;
that one with the same cores, and with a core of its own.

All ways in one run, each in a service of its own on copies of the same Delta tables.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from pyspark.sql import SparkSession

from bench.phases import moment
from bench.report import Figure, print_line
from bench.service import serving
from tests import spark_session
from tests.e2e.formats import make_delta
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

BENCH = "routing"
SMALL, QUICK_SMALL = 50, 3
LARGE_ROWS, QUICK_LARGE_ROWS = 5_000_000, 400_000  # of each of five commits; about 80 bytes each
SMALL_ROWS = 2_000
TIMEOUT = 3600.0
APPLICATIONS = '{"engines": {"spark-submit": {"properties": {"max-applications": "1", "driver-memory": "2g"}}}}'
ONE_CORE = {"spark": '{"master": "local[1]"}'}  # for the driver, and another one for an application: as on a cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    small: Sequence[float]  # seconds from request to verified
    large: float
    engine: str  # of the large one


def run(folder: Path, *, quick: bool) -> list[Figure]:
    count, rows = (QUICK_SMALL, QUICK_LARGE_ROWS) if quick else (SMALL, LARGE_ROWS)
    make_templates(folder, rows)
    alone = measured(folder, "alone", count, {}, with_large=False)
    without = measured(folder, "one pool", count, {})
    pools = measured(folder, "two pools", count, {}, queue="large")
    routed = measured(folder, "routed", count, {"plugins": APPLICATIONS})
    narrow = measured(folder, "one core", count, ONE_CORE)
    wider = measured(folder, "one core, routed", count, {**ONE_CORE, "plugins": APPLICATIONS})
    size = sum(file.stat().st_size for file in (folder / "large").rglob("*.parquet"))
    return [
        figure(f"small ones alone, p95 of {count}", p95(alone.small), "s"),
        figure(f"small ones beside one of {size / 1e9:.1f} GB in their pool, p95", p95(without.small), "s"),
        figure("small ones beside it in a pool of its own, p95", p95(pools.small), "s"),
        figure("small ones beside it in an application of its own, p95", p95(routed.small), "s"),
        figure("p95 with routing / without", p95(routed.small) / p95(without.small), at_most=1),
        figure("p95 with two pools / one", p95(pools.small) / p95(without.small)),
        figure(f"the large one, {without.engine}, one pool", without.large, "s"),
        figure(f"the large one, {pools.engine}, two pools", pools.large, "s"),
        figure(f"the large one, {routed.engine}", routed.large, "s"),
        figure("a driver of one core: small ones beside it in their pool, p95", p95(narrow.small), "s"),
        figure("small ones beside it in an application with another core, p95", p95(wider.small), "s"),
        figure("p95 with routing to another core / without", p95(wider.small) / p95(narrow.small), at_most=1),
        figure(f"the large one, {narrow.engine}, one core, one pool", narrow.large, "s"),
        figure(f"the large one, {wider.engine}, on another core", wider.large, "s"),
    ]


def make_templates(folder: Path, rows: int) -> None:
    print_line("routing: writing a large table and a small one")
    spark: SparkSession = spark_session.start_session("delta")
    make_delta(spark, folder / "large", rows)
    make_delta(spark, folder / "small", SMALL_ROWS)
    spark.stop()


def measured(
    folder: Path, name: str, count: int, settings: Mapping[str, Any], *, with_large: bool = True, queue: str = "default"
) -> Taken:
    """A warm driver first; then the large one, and as soon as it runs the small ones, all at once."""
    lake = folder / f"lake-{name.replace(' ', '-').replace(',', '')}"
    paths = [copied(folder / "small", lake / f"small_{n}") for n in range(count + 1)]
    large = copied(folder / "large", lake / "large") if with_large else None
    with serving(folder / f"home-{lake.name}", lake, **settings) as service:
        warm_up = operation_of(service, register(service, paths[0]))
        wait_for(lambda: ended(service, warm_up), "the first operation", TIMEOUT)
        big = operation_of(service, register(service, large, queue, **{"large-from": "100MB"})) if large else None
        if big is not None:
            wait_for(lambda: service.get(f"/api/v1/operations/{big}")["status"] == "running", "the large one", TIMEOUT)
        smalls = [operation_of(service, table) for table in [register(service, path) for path in paths[1:]]]
        wait_for(lambda: all(ended(service, one) for one in smalls), "the small ones", TIMEOUT, pace=2.0)
        seconds = [seconds_of(service, one) for one in smalls]
        if big is not None:
            wait_for(lambda: ended(service, big), "the large one", TIMEOUT, pace=2.0)
        engine = service.get(f"/api/v1/operations/{big}")["engine"] if big else ""
        taken = Taken(small=seconds, large=seconds_of(service, big) if big else 0.0, engine=engine)
    shutil.rmtree(lake)
    print_line(f"routing: {name}: small p95 {p95(taken.small):.1f} s, large {taken.large:.1f} s {taken.engine}")
    return taken


def copied(template: Path, path: Path) -> Path:
    shutil.copytree(template, path)
    return path


def register(service: RunningService, path: Path, queue: str = "default", **properties: str) -> int:
    return service.add_table(path, "optimize", format="delta", queue=queue, properties=properties)


def operation_of(service: RunningService, table: int) -> int:
    """Its small files are found at the first look."""
    found = wait_for(lambda: service.operations(table=table), f"an operation of table {table}", TIMEOUT)
    return int(found[0]["id"])


def ended(service: RunningService, id: int) -> bool:
    operation = service.get(f"/api/v1/operations/{id}")
    if operation["status"] in ("failed", "dropped"):
        raise RuntimeError(f"operation {id} {operation['status']}: {operation['reason']}")
    return bool(operation["status"] == "succeeded")


def seconds_of(service: RunningService, id: int) -> float:
    operation = service.get(f"/api/v1/operations/{id}")
    return moment(operation["finished_at"]) - moment(operation["created_at"])


def p95(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=20, method="inclusive")[-1]


def figure(name: str, value: float, unit: str = "", **goal: float) -> Figure:
    return Figure(bench=BENCH, name=name, value=value, unit=unit, **goal)
