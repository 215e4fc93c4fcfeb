# SPDX-License-Identifier: Apache-2.0
"""The driver program: runs the work in its spool folder until it is idle, too old, too big or asked to stop.

The warm driver serves many works; with ``--once`` it is the application of the one work that it finds. With
``--remote`` it runs on another machine than the service, in the care of a cluster.
"""

import fcntl
import os
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import JobAttempt
from lakehand.jobs.held_locks import log_locks, release_left
from lakehand.jobs.lease_watchdog import LeaseWatchdog, ProcessGroup
from lakehand.jobs.leases import Heartbeats, Leases, MachineClock, clock
from lakehand.jobs.spool import Document, Refused, Spool

HEARTBEAT_EVERY = 1.0  # seconds
BUSY_PAUSE, IDLE_PAUSE = 0.03, 0.2  # seconds between two readings of the spool
IDLE_AFTER = 5.0  # seconds without any event
PROGRESS_EVERY = 1.0  # seconds; the service stores progress less often than that
SHUTDOWN_TIMEOUT = 10.0  # seconds for Spark to end
MOST_SOCKETS = 1000  # of the JVM: half of the connections to one bucket that it may have


class Activity:
    """Counts over all Spark jobs of one tag. A finished Spark job is read once."""

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._spark = context._jsc.sc()
        self._tag = tag
        self._finished: dict[int, tuple[int, int]] = {}

    def read(self) -> Document:
        tasks = dict(self._finished)
        text = ""
        for job in sorted(self._spark.statusTracker().getJobIdsForTag(self._tag)):
            if job not in tasks:
                data = self._spark.statusStore().job(job)
                tasks[job] = self._count(job, data)
                text = description(data) or text
        done = sum(done for done, _ in tasks.values())
        total = sum(total for _, total in tasks.values())
        percent = {"percent": done * 100 // total} if total else {}
        return {"activity": text, "tasks_done": done, "tasks_total": total, **percent}

    def _count(self, job: int, data: Any) -> tuple[int, int]:
        done, total = data.numCompletedTasks(), data.numTasks() - data.numSkippedTasks()
        if data.status().name() != "RUNNING":
            self._finished[job] = (done, max(done, total))
            return self._finished[job]
        return done, max(done, total)


def description(data: Any) -> str:
    text = data.description()
    return str(text.get()) if text.isDefined() else ""


class Driver:
    """The loop. Other threads: one per job, the heartbeat, the progress monitor, and the lease watchdog."""

    def __init__(self, spool: Spool, spark: SparkSession, wanted: Namespace, process_group: ProcessGroup) -> None:
        self.spool = spool
        self.spark = spark
        self.wanted = wanted
        self.process_group = process_group
        self.heartbeats = Heartbeats(uuid4().hex[:12])
        # An application is younger than its lease, but shares a clock with the service if it is on the same machine.
        self.leases = Leases(MachineClock() if wanted.once and not wanted.remote else self.heartbeats)
        self.work_items: dict[str, Document] = {}
        self.attempts: dict[str, JobAttempt] = {}
        self.lock = Lock()
        self.loop_wake_up = Event()
        self.monitor_wake_up = Event()  # an attempt must stop
        self.application = application_of(spark)
        self.started_at = time.time()
        self.began = self.last_event = clock()
        self.leaving = ""  # why it starts nothing new
        self.over = Event()
        self.rss_mb = self.sockets = 0

    def run(self) -> None:
        watchdog = LeaseWatchdog(self.process_group, self.running, self.wanted.lease_grace, self.monitor_wake_up.set)
        watchdog.start()
        heartbeat = Thread(target=self._send_heartbeats, name="heartbeat", daemon=True)
        heartbeat.start()
        InheritableThread(target=self._monitor, name="monitor", daemon=True).start()
        if not self.wanted.once:
            InheritableThread(target=self._warm_up, name="warm-up", daemon=True).start()
        while not (self.leaving and not self.running()):
            self.survive_disk_errors(self.step)
            self.loop_wake_up.wait(BUSY_PAUSE if clock() - self.last_event < IDLE_AFTER else IDLE_PAUSE)
            self.loop_wake_up.clear()
        self.over.set()
        heartbeat.join()
        watchdog.stop()

    def survive_disk_errors(self, action: Callable[[], None]) -> None:
        """A full disk may recover. Without its spool folder the driver ends."""
        try:
            action()
        except OSError as error:
            if not self.spool.inbox.exists():
                self.process_group.end("its spool folder is gone")
            sys.stderr.write(f"lakehand: {error!r}\n")

    def step(self) -> None:
        """Read renewals and cancels before new work, so that their targets are known."""
        renewals, cancels = self.spool.take_renewals(), self.spool.take_cancels()
        self._read_inbox()
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

    def _read_inbox(self) -> None:
        for name in self.spool.strays():
            sys.stderr.write(f"lakehand: {name!r} in the inbox is not a work item, and is removed\n")
            self.spool.remove_stray(name)
        waiting = self.spool.waiting()
        for handle in set(self.work_items).difference(waiting, self.busy()):
            self._forget(handle)
        for handle in waiting:
            if handle not in self.work_items:
                self._read_work_item(handle)

    def _read_work_item(self, handle: str) -> None:
        self.last_event = clock()
        if self.spool.is_known(handle):
            self.spool.void(handle)
            return
        try:
            item = self.spool.work_item(handle)
        except Refused as refusal:
            self._refuse(handle, str(refusal))
            return
        if item is None:
            return
        self.work_items[handle] = item
        self.leases.grant(handle, item.get("heartbeat_token"), float(item["time_to_live"]))

    def _refuse(self, handle: str, reason: str) -> None:
        """Give it an outcome and take it out of the inbox. All other work goes on."""
        sys.stderr.write(f"lakehand: the work item {handle} is refused: {reason}\n")
        if self.spool.accept(handle):
            message = f"the work item cannot be read: {reason}"
            outcome = {"handle": handle, "state": "failed", "error_class": "unreadable-work-item", "message": message}
            self.spool.finish(handle, outcome)

    def _renew(self, renewal: Document) -> None:
        for handle in renewal["handles"]:
            if handle in self.work_items:
                self.leases.grant(handle, renewal.get("heartbeat_token"), float(renewal["time_to_live"]))

    def _cancel(self, handle: str) -> None:
        with self.lock:
            attempt = self.attempts.get(handle)
        if attempt is not None:
            attempt.is_canceled = True
            self.monitor_wake_up.set()

    def _start_what_can_go(self) -> None:
        busy = self.busy()
        free = self.wanted.threads - len(busy)
        for item in sorted(self.work_items.values(), key=lambda item: (item.get("at", 0), item["handle"])):
            if free <= 0:
                return
            handle = item["handle"]
            if handle not in busy and self.leases.overdue(handle, clock()) < 0:
                self._start(item)
                free -= 1

    def _start(self, item: Document) -> None:
        attempt = JobAttempt(self.spool, self.leases, item, self.heartbeats.boot, self.application)
        with self.lock:
            self.attempts[attempt.handle] = attempt
        InheritableThread(target=self._run_attempt, args=(attempt,), name=attempt.handle, daemon=True).start()

    def _run_attempt(self, attempt: JobAttempt) -> None:
        try:
            attempt.run(self.spark, self._end_if_spark_is_gone)
        except BaseException as error:
            self.process_group.end(f"the outcome of {attempt.handle} cannot be written: {error!r}")
        with self.lock:
            del self.attempts[attempt.handle]
        self.last_event = clock()
        self.loop_wake_up.set()

    def _forget(self, handle: str) -> None:
        self.work_items.pop(handle, None)
        self.leases.drop(handle)

    def _end_if_spark_is_gone(self) -> None:
        """If the JVM died, the outcome is unknown: end the driver, so that the attempt is reported as LOST."""
        try:
            if not self.spark.sparkContext._jsc.sc().isStopped():
                return
        except Exception as error:
            self.process_group.end(f"its JVM does not answer: {error!r}")
        self.process_group.end("its Spark application has ended")

    def _reason_to_leave(self) -> str:
        wanted, now = self.wanted, clock()
        if self.spool.stop.exists():
            return "asked to stop"
        if wanted.once and not self.spool.waiting() and not self.running():
            return "its work is over"
        if 0 < wanted.max_age < now - self.began:
            return f"older than {wanted.max_age:g} s"
        if 0 < wanted.idle_timeout < now - self.last_event and not self.running():
            return f"idle for {wanted.idle_timeout:g} s"
        return self._reason_of_size()

    def _reason_of_size(self) -> str:
        if 0 < self.wanted.max_rss_mb < self.rss_mb:
            return f"bigger than {self.wanted.max_rss_mb} MB"
        if self.sockets > MOST_SOCKETS:
            return f"holding {self.sockets} connections, which a library has not closed"
        return ""

    def _send_heartbeats(self) -> None:
        while not self.over.is_set():
            self.rss_mb = resident_mb(os.getpid()) + resident_mb(self.process_group.jvm)
            self.sockets = open_sockets(self.process_group.jvm)
            self.heartbeats.tick(clock())
            self.survive_disk_errors(lambda: self.spool.publish_state(self.state("up")))
            self.over.wait(HEARTBEAT_EVERY)

    def _warm_up(self) -> None:
        """The first query loads thousands of classes: run one before the first job arrives."""
        self.spark.newSession().range(1).count()

    def state(self, state: str) -> Document:
        return {
            "boot": self.heartbeats.boot,
            "beat": self.heartbeats.last,
            "state": state,
            "code": self.wanted.code,
            "leaving": self.leaving,
            "pid": os.getpid(),
            "jvm": self.process_group.jvm,
            **self.application,
            "started_at": self.started_at,
            "threads": self.wanted.threads,
            "running": sorted(self.busy()),
            "waiting": len(set(self.work_items.copy()).difference(self.busy())),
            "rss_mb": self.rss_mb,
        }

    def _monitor(self) -> None:
        """Cancel attempts and publish their progress. Both ask Spark, and may have to wait for it."""
        activities: dict[str, Activity] = {}
        while True:
            self.monitor_wake_up.wait(PROGRESS_EVERY)
            self.monitor_wake_up.clear()
            attempts = self.running()
            activities = {a.handle: activities.get(a.handle) or self._activity(a) for a in attempts}
            for attempt in attempts:
                self._monitor_attempt(attempt, activities[attempt.handle])

    def _activity(self, attempt: JobAttempt) -> Activity:
        return Activity(self.spark.sparkContext, attempt.tag)

    def _monitor_attempt(self, attempt: JobAttempt, activity: Activity) -> None:
        try:
            if attempt.stop_reason():
                self.spark.sparkContext.cancelJobsWithTag(attempt.tag)
            tasks = activity.read()
            if tasks != attempt.tasks:
                attempt.tasks = tasks
                attempt.publish()
        except Exception as error:
            sys.stderr.write(f"lakehand: cannot monitor {attempt.handle}: {error!r}\n")
            self._end_if_spark_is_gone()


def application_of(spark: SparkSession) -> Document:
    """Its id in Spark and in the cluster, and the address of its UI; empty if that is off."""
    context = spark.sparkContext
    return {"application": str(context.applicationId), "application_url": str(context.uiWebUrl or "")}


def resident_mb(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def open_sockets(pid: int) -> int:
    """Zero below the limit, which is cheaper to know, and where the system does not tell."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - may be thousands
    except OSError:
        return 0
    return sum(is_socket(f"{folder}/{name}") for name in names) if len(names) > MOST_SOCKETS else 0


def is_socket(path: str) -> bool:
    try:
        return os.readlink(path).startswith("socket:")  # noqa: PTH115
    except OSError:  # closed meanwhile
        return False


def arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--spool", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--idle-timeout", type=float, default=600.0, help="seconds; 0: never")
    parser.add_argument("--max-age", type=float, default=86400.0, help="seconds; 0: no limit")
    parser.add_argument("--max-rss-mb", type=int, default=0, help="0: no limit")
    parser.add_argument("--lease-grace", type=float, default=5.0, help="seconds for a job to stop after its lease")
    parser.add_argument("--code", default="", help="checksum of the jobs, for the service to know which ones it has")
    parser.add_argument("--once", action="store_true", help="run the one work that is there, and end")
    parser.add_argument("--remote", action="store_true", help="the service is on another machine")
    return parser.parse_args()


def remove_own_folder_from_import_path() -> None:
    """Python puts the program's folder first, where ``lance`` would be our jobs instead of the library."""
    own = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != own]


def prepare_remote(spool: Spool, process_group: ProcessGroup) -> None:
    """The service sees no process: whatever ends this one, its folder must say so."""
    if not spool.inbox.is_dir():
        sys.exit(f"{spool.root} is not on {os.uname().nodename}: shared-folder must be on storage that all nodes have")
    signal.signal(signal.SIGTERM, lambda *_: process_group.end("the cluster told it to end"))


def main() -> None:
    remove_own_folder_from_import_path()
    wanted = arguments()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        sys.exit("start this program with spark-submit")
    spool = Spool(wanted.spool)
    process_group = ProcessGroup(os.getppid(), spool.exit_reason)
    if wanted.remote:
        prepare_remote(spool, process_group)
    else:
        lock = spool.lock.open("a")
        fcntl.flock(lock, fcntl.LOCK_SH)
    if not wanted.once:
        release_left(spool.locks)
        spool.clear()  # an application has no predecessor: all requests are for itself
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    if not wanted.once:
        log_locks(spark, spool.locks)
    driver = Driver(spool, spark, wanted, process_group)
    driver.run()
    shutdown = Thread(target=spark.stop, daemon=True)
    shutdown.start()
    shutdown.join(SHUTDOWN_TIMEOUT)
    spool.publish_state(driver.state("stopped"))
    if wanted.remote:
        os._exit(0)  # the cluster ends the JVM, and lists the application as succeeded
    process_group.end(f"it left: {driver.leaving}")  # a library's thread could keep the JVM alive


if __name__ == "__main__":
    main()
