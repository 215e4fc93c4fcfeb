# SPDX-License-Identifier: Apache-2.0
"""A harness of a Paimon table, and jobs that are stopped or disturbed at a step that a test names."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.paimon import PaimonFormat, PaimonProcessFactory
from lakehand.formats.paimon.table import PAIMON
from lakehand.spi import Operation, TableSpec
from lakehand.testing.harness import PluginHarness
from tests.kit.interruptions import Hook, Interruptions, Killed, die, run_job
from tests.kit.polling import wait_for


def harness(spark: SparkSession, path: Path, **properties: str) -> PluginHarness:
    """Properties of the table with dots as double underscores: ``compact__strategy``."""
    factory = PaimonProcessFactory()
    own = {f"paimon.{key.replace('__', '.').replace('_', '-')}": value for key, value in properties.items()}
    spec = TableSpec(location=str(path), format=PAIMON, properties=own)
    return PluginHarness(factory=factory, format=PaimonFormat(), spec=spec, session=spark)


def disturbed(spark: SparkSession, operation: Operation, step: str, act: Hook) -> dict[str, Any]:
    """Run an admitted operation's job, with the act at the beginning of the step."""
    process = operation.process
    return run_job(spark, process.job, process.parameters, Interruptions(hooks={step: act}))


def killed(spark: SparkSession, operation: Operation, step: str) -> None:
    with pytest.raises(Killed):
        disturbed(spark, operation, step, die)


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
    wait_for(lambda: running_tasks(spark) >= cores, "tasks that wait", 60, pace=0.02)
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
        tracker = spark.sparkContext.statusTracker()
        wait_for(lambda: len(tracker.getActiveJobsIds()) > 1 or bool(answer), "its Spark job", 60, pace=0.02)
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
