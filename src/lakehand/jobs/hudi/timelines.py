# SPDX-License-Identifier: Apache-2.0
"""The plans that are pending in a table, asked of Hudi itself, in the driver."""

from typing import Any

from pyspark.sql import SparkSession


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
    """Whether the timeline knows an instant at all, pending or completed."""
    found = meta_client(session, location).getActiveTimeline().getInstants()
    return any(each.requestedTime() == instant for each in found)


def meta_client(session: SparkSession, location: str) -> Any:
    jvm: Any = session.sparkContext._jvm
    hadoop = session._jsparkSession.sessionState().newHadoopConf()
    builder = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
    return (
        builder.setConf(jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(hadoop))
        .setBasePath(location)
        .build()
    )
