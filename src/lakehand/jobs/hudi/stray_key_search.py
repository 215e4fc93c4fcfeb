# SPDX-License-Identifier: Apache-2.0
"""Finds stray keys, and the partitions where a compaction can leave some."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import broadcast, col

from lakehand.jobs.hudi import checks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.spark import ListedFile, list_folder

MOST_PARTITIONS = 50  # that are read one by one; of more, the whole table is read
PARTITION, KEY, FILE = "_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name"
BASE_FILE = r"\.(parquet|orc|hfile|lance)$"
_DELTA_COMMIT = re.compile(r"(\d{14}|\d{17})(?:_(\d+))?\.deltacommit")
_LOG_FILE = re.compile(r".*_(\d{14}|\d{17})(?:\.[a-z]+)?\.log\..*")


def partitions_with_deletes(job: Job, location: str, instant: str) -> list[str]:
    """Those where the plan's logs have deletes, by the commits that wrote them. A commit that is gone may have some."""
    files = list_folder(job.session, timelines.folder(job.session, location))
    requested = [file for file in files if file.name == f"{instant}.compaction.requested"]
    operations = [one for file in requested for one in checks.read_document(job, file.path).get("operations") or ()]
    partitions = {
        name.rpartition("/")[2]: one.get("partitionPath") or ""
        for one in operations
        for name in one.get("deltaFilePaths") or ()
    }
    known: set[str] = set()
    found: set[str] = set()
    for _, stat in write_stats(job, files, since=first_instant(partitions)):
        names = {str(stat.get("path") or "").rpartition("/")[2], *(stat.get("logFiles") or ())} & partitions.keys()
        known |= names
        if int(stat.get("numDeletes") or 0):
            found |= {partitions[name] for name in names}
    return sorted(found | {partitions[name] for name in partitions.keys() - known})


def partitions_written_since(job: Job, location: str, instant: str) -> set[str]:
    """By delta commits that were completed after this instant."""
    files = list_folder(job.session, timelines.folder(job.session, location))
    return {partition for partition, _ in write_stats(job, files, since=instant.ljust(17, "0"))}


def first_instant(logs: Iterable[str]) -> str:
    """Names of log files have the instant of their commit, or in tables of version 6 that of the base file before."""
    return min((found[1].ljust(17, "0") for name in logs if (found := _LOG_FILE.fullmatch(name))), default="")


def write_stats(job: Job, timeline: Iterable[ListedFile], *, since: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of the delta commits that were completed since then, by partition; tables of version 6 say when they began."""
    for file in timeline:
        found = _DELTA_COMMIT.fullmatch(file.name)
        if found and file.size and (found[2] or found[1]).ljust(17, "0") >= since:
            with suppress(FileNotFoundError):  # a writer has archived it meanwhile
                stats = checks.read_document(job, file.path).get("partitionToWriteStats") or {}
                yield from ((partition, stat) for partition, group in stats.items() for stat in group)


def stray_keys(job: Job, location: str, partitions: Sequence[str]) -> int:
    """Live keys that come from a log file, and that no base file of their partition has."""
    if not partitions:
        return 0
    folders = [f"{location}/{partition}".rstrip("/") for partition in partitions]
    if len(folders) > MOST_PARTITIONS or any("*" in folder for folder in folders):
        folders = [location]
    in_logs = read(job, folders, "snapshot").where(~col(FILE).rlike(BASE_FILE)).select(PARTITION, KEY).cache()
    try:
        in_base = read(job, folders, "read_optimized").select(PARTITION, KEY)
        known = in_base.join(broadcast(in_logs), [PARTITION, KEY], "left_semi")
        return in_logs.join(known, [PARTITION, KEY], "left_anti").count()
    finally:
        in_logs.unpersist()


def read(job: Job, folders: Sequence[str], query: str) -> DataFrame:
    reader = job.session.read.format("hudi").option("hoodie.datasource.query.type", query)
    return reduce(DataFrame.unionByName, (reader.load(folder).select(PARTITION, KEY, FILE) for folder in folders))
