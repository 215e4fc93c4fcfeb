# SPDX-License-Identifier: Apache-2.0
"""Hudi's own clients of a table: the plans that are pending on its timeline, and the client that executes them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.held_locks import RELEASED, TAKEN, log_own
from lakehand.jobs.safety import UnsafeRequest
from lakehand.jobs.spark import hadoop_configuration, jvm

PROVIDER, LOCKS = "hoodie.write.lock.provider", "org.apache.hudi.client.transaction.lock."
IN_PROCESS, NO_LOCK = f"{LOCKS}InProcessLockProvider", f"{LOCKS}NoopLockProvider"
UNLOCKED = {"hoodie.write.concurrency.mode": "single_writer", "hoodie.clean.failed.writes.policy": "NEVER"}


PENDING: Mapping[str, Callable[[Any], Any]] = {
    "compaction": lambda timeline: timeline.filterPendingCompactionTimeline(),
    "clustering": lambda timeline: timeline.filterPendingClusteringTimeline(),
    "clean": lambda timeline: timeline.getCleanerTimeline().filterInflightsAndRequested(),
    "logcompaction": lambda timeline: timeline.filterPendingLogCompactionTimeline(),
    "indexing": lambda timeline: timeline.filterPendingIndexTimeline(),
}


def pending(session: SparkSession, location: str, kind: str) -> list[str]:
    """Instants of pending plans, oldest first; kind is Hudi's word for them."""
    return sorted(instant.requestedTime() for instant in pending_instants(session, location, kind))


def pending_instants(session: SparkSession, location: str, kind: str) -> list[Any]:
    return list(PENDING[kind](meta_client(session, location).getActiveTimeline()).getInstants())


def completed(session: SparkSession, location: str, kind: str) -> list[str]:
    """Completed instants, oldest first; kind is commits (what changes or rewrites rows) or clean."""
    timeline = meta_client(session, location).getActiveTimeline()
    found = timeline.getCleanerTimeline() if kind == "clean" else timeline.getCommitsTimeline()
    return sorted(instant.requestedTime() for instant in found.filterCompletedInstants().getInstants())


def pending_writes(session: SparkSession, location: str) -> list[str]:
    """Instants of writes that have begun and are not completed."""
    found = meta_client(session, location).getActiveTimeline().getCommitsTimeline().filterInflightsAndRequested()
    plans = set(pending(session, location, "clustering"))
    return [instant.requestedTime() for instant in found.getInstants() if instant.requestedTime() not in plans]


def holds(session: SparkSession, location: str, instant: str) -> bool:
    """Whether the timeline has an instant at all, pending or completed."""
    found = meta_client(session, location).getActiveTimeline().getInstants()
    return any(each.requestedTime() == instant for each in found)


def folder(session: SparkSession, location: str) -> str:
    """Where the files of the timeline are."""
    return str(meta_client(session, location).getTimelinePath().toString())


def meta_client(session: SparkSession, location: str) -> Any:
    hudi = jvm(session).org.apache.hudi
    storage = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(hadoop_configuration(session))
    return hudi.common.table.HoodieTableMetaClient.builder().setConf(storage).setBasePath(location).build()


@contextmanager
def write_client(session: SparkSession, location: str, options: Mapping[str, str] | None = None) -> Iterator[Any]:
    """As Hudi's procedures make it, with the session's ``hoodie.*`` options, and more on top of them."""
    java = jvm(session)
    more = java.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(options or {}))
    create = java.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
    client = create(session._jsparkSession, location, more, java.scala.Option.empty())
    try:
        yield client
    finally:
        client.close()


@contextmanager
def locked(session: SparkSession, location: str) -> Iterator[None]:
    """Hold the lock that the session's options name: no writer commits meanwhile. Raises if it is not to be had."""
    with table_lock(session, location) as lock, held(session, lock):
        yield


@contextmanager
def table_lock(session: SparkSession, location: str, options: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A lock manager, not of a client, which would close it.

    Closing one deletes the lock's file, whoever holds it. Its ``unlock`` closes it, too, and it can be taken again.
    """
    with write_client(session, location, options) as client:
        if not client.getTransactionManager().isLockRequired():
            raise UnsafeRequest("the work needs the lock that the table's writers use, and its options name none")
        storage = meta_client(session, location).getStorage()
        yield jvm(session).org.apache.hudi.client.transaction.lock.LockManager(client.getConfig(), storage)


@contextmanager
def held(session: SparkSession, lock: Any) -> Iterator[None]:
    lock.lock()
    log_own(session, TAKEN)
    try:
        yield
    finally:
        lock.unlock()
        log_own(session, RELEASED)


def unlocked_client(
    session: SparkSession, location: str, options: Mapping[str, str] | None = None
) -> AbstractContextManager[Any]:
    """A client that takes no lock itself, for work under ``locked``."""
    return write_client(session, location, {**(options or {}), **UNLOCKED, **inside_the_lock(session)})


def inside_the_lock(session: SparkSession) -> dict[str, str]:
    """The lock of a client under ``locked``: never the one that is held, as Hudi's locks cannot be taken twice."""
    is_held = session.conf.get(PROVIDER, "") == IN_PROCESS
    return {PROVIDER: NO_LOCK if is_held else IN_PROCESS}


def forget_heartbeat(session: SparkSession, location: str, instant: str) -> None:
    """As Hudi does: nobody waits for this writer any more."""
    storage, heartbeat = meta_client(session, location).getStorage(), jvm(session).org.apache.hudi.client.heartbeat
    if heartbeat.HoodieHeartbeatClient.heartbeatExists(storage, location, instant):
        heartbeat.HeartbeatUtils.deleteHeartbeatFile(storage, location, instant)


def remove(session: SparkSession, location: str, kind: str, instant: str) -> None:
    """Take a plan off the timeline that nobody executes. The caller holds the table's lock."""
    client = meta_client(session, location)
    states = jvm(session).org.apache.hudi.common.table.timeline.HoodieInstant.State
    for state in (states.INFLIGHT, states.REQUESTED):
        step = client.getInstantGenerator().createNewInstant(state, kind, instant)
        client.getActiveTimeline().deleteInstantFileIfExists(step)
