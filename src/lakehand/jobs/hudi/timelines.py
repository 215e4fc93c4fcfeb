# SPDX-License-Identifier: Apache-2.0
"""Hudi's own clients of a table: the plans that are pending on its timeline, and the client that executes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.spark import hadoop_configuration, jvm


def pending(session: SparkSession, location: str, kind: str) -> list[str]:
    """Instants of pending plans, oldest first; kind is compaction, clustering or clean."""
    timeline = meta_client(session, location).getActiveTimeline()
    if kind == "compaction":
        found = timeline.filterPendingCompactionTimeline()
    elif kind == "clustering":
        found = timeline.filterPendingClusteringTimeline()
    else:
        found = timeline.getCleanerTimeline().filterInflightsAndRequested()
    return sorted(instant.requestedTime() for instant in found.getInstants())


def pending_writes(session: SparkSession, location: str) -> list[str]:
    """Instants of writes that have begun and are not completed."""
    found = meta_client(session, location).getActiveTimeline().getCommitsTimeline().filterInflightsAndRequested()
    plans = set(pending(session, location, "clustering"))
    return [instant.requestedTime() for instant in found.getInstants() if instant.requestedTime() not in plans]


def holds(session: SparkSession, location: str, instant: str) -> bool:
    """Whether the timeline has an instant at all, pending or completed."""
    found = meta_client(session, location).getActiveTimeline().getInstants()
    return any(each.requestedTime() == instant for each in found)


def meta_client(session: SparkSession, location: str) -> Any:
    hudi = jvm(session).org.apache.hudi
    storage = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(hadoop_configuration(session))
    return hudi.common.table.HoodieTableMetaClient.builder().setConf(storage).setBasePath(location).build()


@contextmanager
def write_client(session: SparkSession, location: str) -> Iterator[Any]:
    """As Hudi's procedures make it, with the session's ``hoodie.*`` options."""
    java = jvm(session)
    no_options = java.org.apache.spark.api.python.PythonUtils.toScalaMap({})
    create = java.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
    client = create(session._jsparkSession, location, no_options, java.scala.Option.empty())
    try:
        yield client
    finally:
        client.close()
