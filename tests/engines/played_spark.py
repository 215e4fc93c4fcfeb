# SPDX-License-Identifier: Apache-2.0
"""A stand-in for ``spark-submit``: the real driver program, on a Spark without Java that can only count and pause.

It starts in a fraction of a second, for tests of what an engine and a driver tell each other. As with Spark there are
two processes: the one that the engine starts has the place of the JVM, and its child is the driver's Python.
"""

import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from threading import Event, Thread, local
from time import sleep
from types import ModuleType, SimpleNamespace
from typing import Any

CORES = 2
DRIVER = "--driver"
STARTS_WITH = "PLAYED_STARTS_WITH"  # a file that must be there before the driver starts, where the variable names one


class Canceled(Exception):
    """The Spark job was canceled."""


class SparkJob:
    """Its tasks one after the other, each of them as long as it would take with its share of the cores."""

    def __init__(self, tag: str, tasks: int, seconds: float) -> None:
        self.tag, self.tasks, self.seconds = tag, tasks, seconds
        self.done = 0
        self.canceled = Event()

    def run(self) -> None:
        for _ in range(self.tasks):
            if self.canceled.wait(self.seconds):
                raise Canceled("canceled by its tag")
            self.done += 1

    def data(self) -> Any:
        status = SimpleNamespace(name=lambda: "SUCCEEDED" if self.done == self.tasks else "RUNNING")
        return SimpleNamespace(
            numCompletedTasks=lambda: self.done, numTasks=lambda: self.tasks, numSkippedTasks=lambda: 0,
            status=lambda: status, description=lambda: SimpleNamespace(isDefined=lambda: False),
        )  # fmt: skip


class Context:
    """What the driver asks of a SparkContext."""

    applicationId = "played"  # noqa: N815
    uiWebUrl = "http://played:4040"  # noqa: N815

    def __init__(self) -> None:
        self.jobs: dict[int, SparkJob] = {}
        self.numbers = count()
        self.own = local()
        tracker = SimpleNamespace(getJobIdsForTag=self.jobs_of)
        store = SimpleNamespace(job=lambda number: self.jobs[number].data())
        java = SimpleNamespace(isStopped=lambda: False, statusTracker=lambda: tracker, statusStore=lambda: store)
        self._jsc = SimpleNamespace(sc=lambda: java)
        thread = SimpleNamespace(setName=lambda _: None)
        self._jvm = SimpleNamespace(
            SparkSession=SimpleNamespace(setActiveSession=lambda _: None),
            Thread=SimpleNamespace(currentThread=lambda: thread),
        )

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        self.own.tag = tag

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        for number in self.jobs_of(tag):
            self.jobs[number].canceled.set()

    def jobs_of(self, tag: str) -> list[int]:
        return [number for number, job in list(self.jobs.items()) if job.tag == tag]

    def run(self, tasks: int, seconds: float) -> None:
        job = self.jobs[next(self.numbers)] = SparkJob(self.own.tag, tasks, seconds)
        job.run()

    def __getattr__(self, name: str) -> Any:
        """Whatever else is set changes nothing here."""
        return lambda *_, **__: None


class Session:
    version = "played"
    _jsparkSession = None  # noqa: N815

    def __init__(self, context: Context) -> None:
        self.sparkContext = context

    def newSession(self) -> "Session":  # noqa: N802
        return Session(self.sparkContext)

    def range(self, start: int, end: int, step: int, partitions: int) -> "Numbers":
        return Numbers(self.sparkContext, end - start, partitions)

    def sql(self, statement: str, arguments: dict[str, str]) -> Any:
        def fail() -> None:
            raise RuntimeError(arguments["message"])

        return SimpleNamespace(collect=fail)

    def stop(self) -> None:
        """There is nothing to end."""


class Numbers:
    """A range of numbers, and perhaps a pause for each of them: what the job ``probe`` makes."""

    def __init__(self, context: Context, rows: int, partitions: int, pause: float = 0.0) -> None:
        self.context, self.rows, self.partitions, self.pause = context, rows, partitions, pause

    def count(self) -> int:
        self.context.run(self.partitions, 0.0)
        return self.rows

    def selectExpr(self, _column: str, pause: str) -> "Numbers":  # noqa: N802
        milliseconds = int(pause.rpartition("L)")[0].rpartition(" ")[2])
        return Numbers(self.context, self.rows, self.partitions, milliseconds / 1000)

    @property
    def write(self) -> Any:
        seconds = self.rows / self.partitions * self.pause / CORES
        target = SimpleNamespace(save=lambda: self.context.run(self.partitions, seconds))
        return SimpleNamespace(format=lambda _: SimpleNamespace(mode=lambda _: target))


def replace_pyspark() -> None:
    """Before the driver imports it: names for its annotations, and a builder that builds the session above."""
    builder = SimpleNamespace(getOrCreate=lambda: Session(Context()))
    names = ["Column", "DataFrame", "ArrayType", "DataType", "MapType", "NullType", "StructType", "SparkContext"]
    types: dict[str, Any] = {name: type(name, (), {}) for name in names}
    types["PySparkException"] = type("PySparkException", (Exception,), {})
    types |= {"InheritableThread": Thread, "SparkSession": SimpleNamespace(builder=builder), "functions": None}
    for name in ("pyspark", "pyspark.sql", "pyspark.sql.types", "pyspark.errors"):
        module = sys.modules[name] = ModuleType(name)
        vars(module).update(types)


def drive(arguments: list[str]) -> None:
    replace_pyspark()
    from lakehand.jobs import driver

    sys.argv = arguments
    driver.main()


def submit(words: list[str]) -> int:
    """``--properties-file FILE PROGRAM ARGUMENT...``, as the engine starts it."""
    if file := os.environ.get(STARTS_WITH):
        while not Path(file).exists():
            sleep(0.02)
    command = [sys.executable, __file__, DRIVER, *words[2:]]
    return subprocess.run(command, env={**os.environ, "PYSPARK_GATEWAY_PORT": "1"}, check=False).returncode


if __name__ == "__main__":
    drive(sys.argv[2:]) if sys.argv[1] == DRIVER else sys.exit(submit(sys.argv[1:]))
