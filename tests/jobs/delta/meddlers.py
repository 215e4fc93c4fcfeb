# SPDX-License-Identifier: Apache-2.0
"""Stepping into the middle of a Delta transaction: Delta notifies an observer of each step, and waits for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

OBSERVER = "org.apache.spark.sql.delta.TransactionExecutionObserver"


class Killed(Exception):
    """The job dies here."""


class Meddler:
    """Does something once, when a transaction of this thread is about to commit: its files are written by then."""

    def __init__(self, change: Callable[[], None], *, skip: int = 0) -> None:
        self.change = change
        self.skip = skip
        self.met = 0

    def startingTransaction(self, begin: Any) -> Any:  # noqa: N802 - Delta's name
        return begin.apply()

    def preparingCommit(self, prepare: Any) -> Any:  # noqa: N802
        self.met += 1
        if self.met == self.skip + 1:
            self.change()
        return prepare.apply()

    def createChild(self) -> Any:  # noqa: N802
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None

    class Java:
        implements: ClassVar[list[str]] = [OBSERVER]


@contextmanager
def meddling(session: SparkSession, change: Callable[[], None], *, skip: int = 0) -> Iterator[Meddler]:
    """``change`` is run in the middle of the first transaction of this thread, or after some more of them."""
    context = session.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    jvm: Any = context._jvm
    observers = jvm.org.apache.spark.sql.delta.TransactionExecutionObserver
    usual, meddler = observers.getObserver(), Meddler(change, skip=skip)
    observers.setObserver(meddler)
    try:
        yield meddler
    finally:
        observers.setObserver(usual)
    assert meddler.met > skip, "no transaction came by"


def elsewhere(change: Callable[[], None]) -> Callable[[], None]:
    """The change in a thread of its own, as a writer of its own: what goes wrong there is raised here."""

    def run() -> None:
        wrong: list[BaseException] = []

        def guarded() -> None:
            try:
                change()
            except BaseException as error:
                wrong.append(error)

        thread = Thread(target=guarded)
        thread.start()
        thread.join()
        if wrong:
            raise wrong[0]

    return run


def die() -> None:
    raise Killed("killed in the middle")
