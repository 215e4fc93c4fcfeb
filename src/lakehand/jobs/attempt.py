# SPDX-License-Identifier: Apache-2.0
"""One attempt in the driver: accepts its work, runs the job on a session and thread of its own, writes the outcome."""

import re
import time
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from importlib import import_module
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.causes import causes_of, main_cause
from lakehand.jobs.held_locks import thread_of
from lakehand.jobs.job import Job, JobCanceled, Record
from lakehand.jobs.leases import Leases, clock
from lakehand.jobs.rows import run_verified
from lakehand.jobs.spool import Document, Spool

JOB_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*")
OUTSIDE_JOB = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
LINE_LIMIT = 64 * 1024

CANCELED = "canceled"
LEASE_EXPIRED = "lease-expired"


class UnknownJob(Exception):
    """There is no job of this name."""


class JobAttempt(Record):
    """Used by three threads: the job's, the driver's loop (cancel) and the lease watchdog."""

    def __init__(
        self, spool: Spool, leases: Leases, item: Document, boot: str, application: Document | None = None
    ) -> None:
        super().__init__()
        self.spool = spool
        self.leases = leases
        self.item = item
        self.origin: Document = {"boot": boot, **(application or {})}  # who runs it
        self.handle = str(item["handle"])
        self.tag = thread_of(self.handle)
        self.is_canceled = False
        self.tasks: Document = {}
        self._log = spool.logs / f"{self.handle}.log"
        self._lock = Lock()
        self._is_over = False

    def stop_reason(self) -> str:
        if self.overdue() >= 0:
            return LEASE_EXPIRED
        return CANCELED if self.is_canceled else ""

    def overdue(self) -> float:
        return self.leases.overdue(self.handle, clock())

    def progress(self) -> Document:
        return {"phase": self.phase, **({"notes": dict(self.notes)} if self.notes else {})}

    def publish(self) -> None:
        with self._lock:
            if not self._is_over:
                self.spool.publish_progress(
                    self.handle, {**self.item, **self.origin, "progress": {**self.progress(), **self.tasks}}
                )

    def use_lock(self, path: str) -> None:
        self.spool.use_lock(self.handle, path)

    def write(self, text: str) -> None:
        """ASCII only: an offset into the log is the same in characters and in bytes."""
        moment = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        with self._lock, self._log.open("a", encoding="ascii", errors="backslashreplace") as log:
            log.write(f"{moment} {text[:LINE_LIMIT]}\n")

    def run(self, spark: SparkSession, on_error: Callable[[], None]) -> None:
        """From acceptance to outcome. ``on_error`` does not return if the JVM is gone: then the outcome is unknown."""
        if not self.spool.accept(self.handle):
            return
        started = time.monotonic()
        try:
            result = self._run_job(spark)
            outcome: Document = {"state": "succeeded", "result": result}
        except BaseException as error:
            on_error()
            outcome = self._failure(error)
        outcome |= {"handle": self.handle, **self.origin, "progress": self.progress()}
        outcome["seconds"] = round(time.monotonic() - started, 3)
        self.write(f"{outcome['state']} after {outcome['seconds']} s")
        with self._lock:
            self._is_over = True
            self.spool.finish(self.handle, outcome)

    def _run_job(self, spark: SparkSession) -> Any:
        self.publish()  # which application runs it
        self.write(f"{self.item.get('job')} on {self.item.get('table')} at {self.item.get('location')}")
        run = job_called(str(self.item.get("job")))
        session = self._own_session(spark)
        job = Job(session=session, parameters=dict(self.item.get("parameters") or {}), handle=self.handle, record=self)
        job.check()
        return run(job)

    def _own_session(self, spark: SparkSession) -> SparkSession:
        """All Spark jobs of this thread carry our tag and run in the pool of their queue."""
        context = spark.sparkContext
        context.setJobGroup(self.handle, f"{self.item.get('job')} {self.item.get('table')}", interruptOnCancel=True)
        context.addJobTag(self.tag)
        context.setLocalProperty("spark.scheduler.pool", str(self.item.get("queue") or "default"))
        session = spark.newSession()
        context._jvm.Thread.currentThread().setName(self.tag)  # type: ignore[union-attr]
        context._jvm.SparkSession.setActiveSession(session._jsparkSession)  # type: ignore[union-attr]
        return session

    def _failure(self, error: BaseException) -> Document:
        reason = self.stop_reason()
        self.write("".join(traceback.format_exception(type(error), error, error.__traceback__)))
        causes = causes_of(error)
        cause = main_cause(causes)
        if reason == LEASE_EXPIRED:
            message = "the lease ran out before the job ended"
            return {"state": "failed", "error_class": LEASE_EXPIRED, "message": message}
        if reason == CANCELED or isinstance(error, JobCanceled):
            return {"state": "canceled", "error_class": CANCELED, "message": "stopped as asked"}
        result = {"causes": [each.name for each in causes]}
        return {"state": "failed", "error_class": cause.name, "message": cause.message, "result": result}


def job_called(name: str) -> Callable[[Job], Any]:
    """The job of this name, which also compares rows if its process asks for that."""
    return partial(run_verified, name, function_called(name))


def function_called(name: str) -> Callable[[Job], Any]:
    """``hudi.compaction`` is ``run`` in ``lakehand.jobs.hudi.compaction``; ``module:function`` is a plugin's."""
    if OUTSIDE_JOB.fullmatch(name):
        return outside_job(*name.split(":"))
    if not JOB_NAME.fullmatch(name):
        raise UnknownJob(f"{name!r} is not the name of a job")
    module_name = f"lakehand.jobs.{name.replace('-', '_')}"
    try:
        run = getattr(import_module(module_name), "run", None)
    except ModuleNotFoundError as missing:
        if missing.name and not module_name.startswith(missing.name):
            raise
        run = None
    if run is None:
        raise UnknownJob(f"there is no job {name!r}")
    return run  # type: ignore[no-any-return]


def outside_job(module: str, function: str) -> Callable[[Job], Any]:
    """A job of an installed plugin. Its name comes from the plugin's factory, never from a request."""
    try:
        return getattr(import_module(module), function)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise UnknownJob(f"there is no job {module}:{function}: {error}") from error
