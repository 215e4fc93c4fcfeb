# SPDX-License-Identifier: Apache-2.0
"""The warm driver's program: runs what it finds in the spool folder, until it is idle, old, big or told to stop."""

import fcntl
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from uuid import uuid4

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from lakehand.jobs.activity import Activity
from lakehand.jobs.attempt import JobAttempt
from lakehand.jobs.guard import Guard
from lakehand.jobs.leases import Beats, Leases, clock
from lakehand.jobs.orders import Document, Refused
from lakehand.jobs.process_group import ProcessGroup
from lakehand.jobs.spool import Spool

BEAT = 1.0  # seconds between two beats
QUICK, CALM = 0.03, 0.2  # seconds between two looks at the spool: while there is something to do, and else
CALM_AFTER = 5.0  # seconds without any event
TELL = 0.5  # seconds between two reports of progress
FAREWELL = 10.0  # seconds that Spark may take to end


class Driver:
    """The loop. Threads beside it: one per job, the beat, the watchdog (asks Spark), the guard (asks nobody)."""

    def __init__(self, spool: Spool, spark: SparkSession, wanted: Namespace, process_group: ProcessGroup) -> None:
        self.spool = spool
        self.spark = spark
        self.wanted = wanted
        self.process_group = process_group
        self.beats = Beats(uuid4().hex[:12])
        self.leases = Leases(self.beats)
        self.orders: dict[str, Document] = {}
        self.attempts: dict[str, JobAttempt] = {}
        self.lock = Lock()
        self.wake = Event()  # something for the loop
        self.wake = Event()  # something for the watchdog
        self.application = str(spark.sparkContext.applicationId)
        self.started_at = time.time()
        self.began = self.last_event = clock()
        self.leaving = ""  # why it takes nothing new
        self.over = Event()
        self.rss_mb = 0

    def run(self) -> None:
        guard = Guard(self.process_group, self.running, self.wanted.lease_grace, self.wake.set)
        guard.start()
        beat = Thread(target=self._beat, name="beat", daemon=True)
        beat.start()
        InheritableThread(target=self._mind, name="watchdog", daemon=True).start()
        InheritableThread(target=self._warm_up, name="warm-up", daemon=True).start()
        while not (self.leaving and not self.running()):
            self.carry_on(self.step)
            self.wake.wait(QUICK if clock() - self.last_event < CALM_AFTER else CALM)
            self.wake.clear()
        self.over.set()
        beat.join()
        guard.stop()

    def carry_on(self, action: Callable[[], None]) -> None:
        """A full disk passes; a spool folder that is gone does not come back."""
        try:
            action()
        except OSError as error:
            if not self.spool.inbox.exists():
                self.process_group.end("its spool folder is gone")
            sys.stderr.write(f"lakehand: {error!r}\n")

    def step(self) -> None:
        """Wishes are listed before orders: whatever a wish speaks of was ordered earlier, so it is known by then."""
        renewals, cancels = self.spool.take_renewals(), self.spool.take_cancels()
        self._read_orders()
        for renewal in renewals:
            self._renew(renewal)
        for handle in cancels:
            self._cancel(handle)
        self.leaving = self.leaving or self._reason_to_leave()
        if not self.leaving:
            self._start_what_can_go()
        if renewals or cancels or self.running():
            self.last_event = clock()

    def running(self) -> Sequence[JobAttempt]:
        with self.lock:
            return list(self.attempts.values())

    def busy(self) -> set[str]:
        return {attempt.handle for attempt in self.running()}

    def _read_orders(self) -> None:
        for name in self.spool.strays():
            sys.stderr.write(f"lakehand: {name!r} in the inbox is no order, and is removed\n")
            self.spool.remove_stray(name)
        waiting = self.spool.waiting()
        for handle in set(self.orders).difference(waiting, self.busy()):
            self._forget(handle)
        for handle in waiting:
            if handle not in self.orders:
                self._read_order(handle)

    def _read_order(self, handle: str) -> None:
        self.last_event = clock()
        if self.spool.is_known(handle):
            self.spool.void(handle)
            return
        try:
            order = self.spool.order(handle)
        except Refused as refusal:
            self._refuse(handle, str(refusal))
            return
        if order is None:
            return
        self.orders[handle] = order
        self.leases.grant(handle, order.get("heartbeat_token"), float(order["time_to_live"]))

    def _refuse(self, handle: str, reason: str) -> None:
        """The order gets an outcome and leaves the inbox; the driver and all other work go on."""
        sys.stderr.write(f"lakehand: the order {handle} is refused: {reason}\n")
        if self.spool.accept(handle):
            message = f"the order cannot be read: {reason}"
            outcome = {"handle": handle, "state": "failed", "error_class": "unreadable-order", "message": message}
            self.spool.finish(handle, outcome)

    def _renew(self, renewal: Document) -> None:
        for handle in renewal["handles"]:
            if handle in self.orders:
                self.leases.grant(handle, renewal.get("heartbeat_token"), float(renewal["time_to_live"]))

    def _cancel(self, handle: str) -> None:
        with self.lock:
            attempt = self.attempts.get(handle)
        if attempt is not None:
            attempt.is_canceled = True
            self.wake.set()

    def _start_what_can_go(self) -> None:
        busy = self.busy()
        places = self.wanted.threads - len(busy)
        eldest_first = sorted(self.orders.values(), key=lambda order: (order.get("at", 0), order["handle"]))
        for order in eldest_first:
            if places <= 0:
                return
            handle = order["handle"]
            if handle not in busy and self.leases.overdue(handle, clock()) < 0:
                self._start(order)
                places -= 1

    def _start(self, order: Document) -> None:
        attempt = JobAttempt(self.spool, self.leases, order, self.beats.boot)
        with self.lock:
            self.attempts[attempt.handle] = attempt
        InheritableThread(target=self._attempt, args=(attempt,), name=attempt.handle, daemon=True).start()

    def _attempt(self, attempt: JobAttempt) -> None:
        try:
            attempt.run(self.spark, self._believe_in_spark)
        except BaseException as error:
            self.process_group.end(f"the outcome of {attempt.handle} cannot be written: {error!r}")
        with self.lock:
            del self.attempts[attempt.handle]
        self.last_event = clock()
        self.wake.set()

    def _forget(self, handle: str) -> None:
        self.orders.pop(handle, None)
        self.leases.drop(handle)

    def _believe_in_spark(self) -> None:
        """A job that fails while the JVM goes down has not failed: nobody knows, and a dead driver says just that."""
        try:
            if not self.spark.sparkContext._jsc.sc().isStopped():
                return
        except Exception as error:
            self.process_group.end(f"its JVM does not answer: {error!r}")
        self.process_group.end("its Spark application has ended")

    def _reason_to_leave(self) -> str:
        wanted, now = self.wanted, clock()
        if self.spool.stop.exists():
            return "told to stop"
        if 0 < wanted.max_age < now - self.began:
            return f"older than {wanted.max_age:g} s"
        if 0 < wanted.max_rss_mb < self.rss_mb:
            return f"bigger than {wanted.max_rss_mb} MB"
        if 0 < wanted.idle_timeout < now - self.last_event and not self.running():
            return f"idle for {wanted.idle_timeout:g} s"
        return ""

    def _beat(self) -> None:
        while not self.over.is_set():
            self.rss_mb = resident_mb(os.getpid()) + resident_mb(self.process_group.jvm)
            self.beats.tick(clock())
            self.carry_on(lambda: self.spool.publish(self.state("up")))
            self.over.wait(BEAT)

    def _warm_up(self) -> None:
        """The first query loads thousands of classes: let that happen while the first job is still on its way."""
        self.spark.newSession().range(1).count()

    def state(self, state: str) -> Document:
        return {
            "boot": self.beats.boot,
            "beat": self.beats.last,
            "state": state,
            "leaving": self.leaving,
            "pid": os.getpid(),
            "jvm": self.process_group.jvm,
            "application": self.application,
            "started_at": self.started_at,
            "threads": self.wanted.threads,
            "running": sorted(self.busy()),
            "waiting": len(set(self.orders.copy()).difference(self.busy())),
            "rss_mb": self.rss_mb,
        }

    def _mind(self) -> None:
        """Everything that asks Spark and may have to wait for it: cancelling and counting."""
        activities: dict[str, Activity] = {}
        while True:
            self.wake.wait(TELL)
            self.wake.clear()
            attempts = self.running()
            activities = {a.handle: activities.get(a.handle) or self._activity(a) for a in attempts}
            for attempt in attempts:
                self._mind_one(attempt, activities[attempt.handle])

    def _activity(self, attempt: JobAttempt) -> Activity:
        return Activity(self.spark.sparkContext, attempt.tag)

    def _mind_one(self, attempt: JobAttempt, activity: Activity) -> None:
        try:
            if attempt.stop_reason():
                self.spark.sparkContext.cancelJobsWithTag(attempt.tag)
            tasks = activity.read()
            if tasks != attempt.tasks:
                attempt.tasks = tasks
                attempt.publish()
        except Exception as error:
            sys.stderr.write(f"lakehand: cannot mind {attempt.handle}: {error!r}\n")
            self._believe_in_spark()


def resident_mb(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--spool", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--idle-timeout", type=float, default=600.0, help="seconds; 0: never")
    parser.add_argument("--max-age", type=float, default=86400.0, help="seconds; 0: no limit")
    parser.add_argument("--max-rss-mb", type=int, default=0, help="0: no limit")
    parser.add_argument("--lease-grace", type=float, default=5.0, help="seconds for a job to stop after its lease")
    return parser.parse_args()


def leave_own_folder() -> None:
    """Python searches the folder of its program first, and there ``lance`` would be our jobs, not the library."""
    own = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != own]


def main() -> None:
    leave_own_folder()
    wanted = arguments()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        sys.exit("this program is started by spark-submit, which is its parent")
    spool = Spool(wanted.spool)
    process_group = ProcessGroup(os.getppid(), spool.exit_reason)
    lock = spool.lock.open("a")
    fcntl.flock(lock, fcntl.LOCK_SH)
    spool.clear()
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    driver = Driver(spool, spark, wanted, process_group)
    driver.run()
    shutdown = Thread(target=spark.stop, daemon=True)
    shutdown.start()
    shutdown.join(FAREWELL)
    spool.publish(driver.state("stopped"))
    process_group.end(f"it left: {driver.leaving}")  # a library's thread could keep the JVM for ever


if __name__ == "__main__":
    main()
