# SPDX-License-Identifier: Apache-2.0
"""A fleet of small tables with a plan each: cold spark-submits, a warm loop written by hand, and the service."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import httpx

from bench.fleet_tables import check_compacted, copies, instant_of, order_of, write_template
from bench.phases import moment, phases_of
from bench.report import Figure, print_line
from bench.service import serving
from lakehand.engines.spark.command import as_properties_file, driver_command
from lakehand.engines.spark.jars import ensure_jars, spark_home
from lakehand.engines.spark.java import java_home
from lakehand.engines.spark.settings import read_settings
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

PROGRAM = Path(__file__).with_name("compactions.py")
TIMEOUT = 1800.0
ASK_EVERY = 1.0  # seconds: asking costs the two cores that the service and Spark need


@dataclass(kw_only=True)
class Fleet:
    folder: Path
    tables: int
    cold: int  # how many cold ones stand for all
    rounds: int
    template: Path = field(init=False)
    instant: str = field(init=False)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10_000)))
    phases: list[dict[str, float]] = field(default_factory=list)

    def run(self) -> list[Figure]:
        print_line(f"fleet: writing a Hudi table; {self.tables} copies of it are compacted in three ways")
        self.template = self.folder / "template"
        write_template(self.template)
        self.instant = instant_of(self.template)
        cold = self.cold_seconds()
        loop, service = self.side_by_side()
        return self.figures(cold, loop, service)

    def side_by_side(self) -> tuple[float, float]:
        """By turns, and in the other order every second time, so that noise meets both."""
        loops: list[float] = []
        services: list[float] = []
        turns: list[tuple[list[float], Callable[[], float]]] = [
            (loops, self.loop_seconds),
            (services, self.service_seconds),
        ]
        for number in range(self.rounds):
            for taken, measure in turns if number % 2 == 0 else reversed(turns):
                taken.append(measure())
        return mean(loops), mean(services)

    def fresh(self, count: int) -> list[Path]:
        return copies(self.template, self.folder / "lake" / f"fleet-{next(self.numbers)}", count)

    def cold_seconds(self) -> float:
        """One application per table; so many tables, one after the other, as all of them would take."""
        taken = []
        for path in self.fresh(self.cold):
            began = time.perf_counter()
            self.submit([path], warm_up=[], threads=1)
            taken.append(time.perf_counter() - began)
            check_compacted([path], self.instant)
            print_line(f"fleet: cold spark-submit {taken[-1]:.1f} s")
        return mean(taken) * self.tables

    def loop_seconds(self) -> float:
        [warm_up], paths = self.fresh(1), self.fresh(self.tables)
        seconds = self.submit(paths, warm_up=[warm_up], threads=read_settings({}).threads)
        check_compacted(paths, self.instant)
        print_line(f"fleet: warm loop {seconds:.1f} s")
        return seconds

    def submit(self, paths: Sequence[Path], *, warm_up: Sequence[Path], threads: int) -> float:
        """Run the program with the properties of the service's own driver; its own account of the seconds."""
        home = self.folder / f"submit-{next(self.numbers)}"
        home.mkdir(mode=0o700)
        order = {"orders": [order_of(p) for p in paths], "warm_up": [order_of(p) for p in warm_up], "threads": threads}
        file = home / "order.json"
        file.write_text(json.dumps(order))
        command = driver_command(
            read_settings({}), home=home, spool=home, spark_home=spark_home(), java=java_home(),
            formats=["hudi"], jars=ensure_jars(["hudi"]),
        )  # fmt: skip
        command.properties_file.write_text(as_properties_file(command.properties))
        arguments = [*command.arguments[:3], str(PROGRAM), str(file)]
        with (home / "log").open("wb") as log:
            subprocess.run(arguments, env=dict(command.environment), stdout=log, stderr=log, check=True)
        return float(json.loads(file.with_suffix(".out").read_text())["seconds"])

    def service_seconds(self) -> float:
        """From the first notification until all operations have succeeded, which means verified."""
        [warm_up], paths = self.fresh(1), self.fresh(self.tables)
        home = self.folder / f"home-{next(self.numbers)}"
        with serving(home, self.folder / "lake") as service, httpx.Client(base_url=service.url) as writer:
            notify(writer, warm_up, self.instant)
            wait_for(lambda: succeeded(service) == 1, "the first compaction", TIMEOUT)
            began = time.time()
            for path in paths:
                notify(writer, path, self.instant)
            wait_for(lambda: succeeded(service) == 1 + self.tables, "all compactions", TIMEOUT, pace=ASK_EVERY)
            seconds = last_end(service) - began
            self.phases.append(phases_of(service, {str(path) for path in paths}, read_settings({}).threads))
        check_compacted(paths, self.instant)
        print_line(f"fleet: service {seconds:.1f} s")
        return seconds

    def figures(self, cold: float, loop: float, service: float) -> list[Figure]:
        def figure(name: str, value: float, unit: str = "", **goal: float) -> Figure:
            return Figure(bench="fleet", name=name, value=value, unit=unit, **goal)

        return [
            figure(f"(a) cold spark-submit, {self.cold} tables, extrapolated to {self.tables}", cold, "s"),
            figure(f"(b) warm loop by hand, {self.tables} tables", loop, "s"),
            figure(f"(c) service, notified to verified, {self.tables} tables", service, "s"),
            figure("(c) / (b)", service / loop, at_most=1.10),
            figure("(a) / (c)", cold / service, at_least=10),
            *(figure(f"(c) {name}", mean(p[name] for p in self.phases), unit_of(name)) for name in self.phases[0]),
        ]


def unit_of(phase: str) -> str:
    return "%" if phase.startswith("share") else "s"


def notify(writer: httpx.Client, path: Path, instant: str) -> None:
    """As Hudi's client does after a commit."""
    query = {"action": "REQUEST", "basepath": str(path), "table_name": path.name, "instant": instant}
    answer = writer.get("/v1/hoodie/service/compact", params={**query, "username": "default", "queue": "default"})
    if not answer.raise_for_status().json()["stored"]:
        raise RuntimeError(f"the notification was not stored: {answer.text}")


def succeeded(service: RunningService) -> int:
    ended = service.operations(status="succeeded,failed,dropped")
    bad = [operation for operation in ended if operation["status"] != "succeeded"]
    if bad:
        raise RuntimeError(f"a compaction {bad[0]['status']}: {bad[0]['reason']}")
    return len(ended)


def last_end(service: RunningService) -> float:
    """When the last operation ended, by its row: the bench itself asks too rarely to tell."""
    return max(moment(operation["finished_at"]) for operation in service.operations(status="succeeded"))


def run(folder: Path, *, quick: bool) -> list[Figure]:
    tables, cold, rounds = (6, 1, 1) if quick else (24, 3, 2)
    return Fleet(folder=folder, tables=tables, cold=cold, rounds=rounds).run()
