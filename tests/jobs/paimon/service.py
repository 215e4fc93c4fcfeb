# SPDX-License-Identifier: Apache-2.0
"""A harness of a Paimon table, and jobs that are stopped or disturbed at a step that a test names."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.sql import SparkSession

from lakehand.formats.paimon import PaimonFormat, PaimonProcessFactory
from lakehand.formats.paimon.table import PAIMON
from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job, Record
from lakehand.spi import Operation, TableSpec
from lakehand.testing.harness import PluginHarness


def harness(spark: SparkSession, path: Path, **properties: str) -> PluginHarness:
    """Properties of the table with dots as double underscores: ``compact__strategy``."""
    factory = PaimonProcessFactory()
    own = {f"paimon.{key.replace('__', '.').replace('_', '-')}": value for key, value in properties.items()}
    spec = TableSpec(location=str(path), format=PAIMON, properties=own)
    return PluginHarness(factory=factory, format=PaimonFormat(), spec=spec, session=spark)


class Killed(Exception):
    """The driver died."""


@dataclass
class Disturbed(Record):
    """Does something once, when the job says that it begins a certain step."""

    step: str = ""
    act: Callable[[], Any] = lambda: None
    is_over: bool = False

    def publish(self) -> None:
        told = {self.phase, *self.notes}
        if not self.is_over and any(one.startswith(self.step) for one in told):
            self.is_over = True
            self.act()


def disturbed(spark: SparkSession, operation: Operation, step: str, act: Callable[[], Any]) -> dict[str, Any]:
    """Run an admitted operation's job, with the act at the beginning of the step."""
    record = Disturbed(step=step, act=act)
    job = Job(spark.newSession(), json.loads(json.dumps(operation.process.parameters)), handle="7-1", record=record)
    result: dict[str, Any] = job_called(operation.process.job)(job)
    assert record.is_over, f"the job never came to {step!r}: {record.lines}"
    return result


def killed(spark: SparkSession, operation: Operation, step: str) -> None:
    def die() -> None:
        raise Killed(step)

    try:
        disturbed(spark, operation, step, die)
    except Killed:
        return
    raise AssertionError("the job went on")


@contextmanager
def held_back(spark: SparkSession, folder: Path) -> Iterator[None]:
    """No Spark task runs in here but ours, which wait: what is submitted meanwhile is planned, and waits, too."""
    gate = folder / "gate"

    def wait(_: Any) -> None:
        until = time.monotonic() + 120
        while not gate.exists() and time.monotonic() < until:
            time.sleep(0.02)

    cores = spark.sparkContext.defaultParallelism
    blocker = Thread(target=lambda: spark.sparkContext.parallelize(range(cores), cores).foreach(wait))
    blocker.start()
    wait_until(lambda: running_tasks(spark) >= cores)
    try:
        yield
    finally:
        gate.touch()
        blocker.join()


def disturbed_plan(spark: SparkSession, folder: Path, run: Callable[[], Any], act: Callable[[], Any]) -> Any:
    """Run something whose Spark job is planned before the act, and executed after it."""
    answer: list[Any] = []

    def work() -> None:
        try:
            answer.append(run())
        except Exception as error:
            answer.append(error)

    with held_back(spark, folder):
        worker = Thread(target=work)
        worker.start()
        wait_until(lambda: len(spark.sparkContext.statusTracker().getActiveJobsIds()) > 1 or bool(answer))
        assert not answer, f"it ended without a Spark job: {answer}"
        act()
    worker.join()
    if isinstance(answer[0], Exception):
        raise answer[0]
    return answer[0]


def running_tasks(spark: SparkSession) -> int:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.02)
