# SPDX-License-Identifier: Apache-2.0
"""Real Delta tables for tests, written by PySpark, spoiled as writers spoil them, and made older than they are."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

COMMITS, FILES_EACH, ROWS_EACH = 5, 20, 400
Facts = tuple[int, int, int]  # rows, sum of v, and a hash over all columns
DAY = 24 * 3600
VECTORS = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "1000"}


def quoted(path: Path) -> str:
    return f"delta.`{str(path).replace('`', '``')}`"


def make_table(
    session: SparkSession,
    path: Path,
    *,
    commits: int = COMMITS,
    files: int = FILES_EACH,
    properties: Mapping[str, str] = VECTORS,
    partitioned: bool = False,
) -> None:
    """A table after some appends, each of so many small files (in each partition)."""
    by = " PARTITIONED BY (p)" if partitioned else ""
    settings = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    columns = "(id bigint, p string, v bigint, note string)"
    session.sql(f"CREATE TABLE {quoted(path)} {columns} USING delta{by} TBLPROPERTIES ({settings})")
    for number in range(commits):
        append(session, path, number=number, files=files)


def append(session: SparkSession, path: Path, *, number: int, files: int = 1, rows: int = ROWS_EACH) -> None:
    frame(session, number, rows).repartition(files).write.format("delta").mode("append").save(str(path))


def frame(session: SparkSession, number: int, rows: int) -> DataFrame:
    columns = ["id", "concat('p ', id % 2) as p", "id * 3 as v", "concat('note ', sha2(string(id), 256)) as note"]
    return session.range(number * rows, (number + 1) * rows).selectExpr(*columns)


def delete(session: SparkSession, path: Path, where: str) -> None:
    session.sql(f"DELETE FROM {quoted(path)} WHERE {where}")


def facts(session: SparkSession, path: Path | str) -> Facts:
    """What a reader sees: equal facts, equal rows."""
    found = session.read.format("delta").load(str(path))
    [row] = found.selectExpr("count(1)", "sum(v)", "sum(cast(xxhash64(*) % 1000000007 as decimal(38,0)))").collect()
    return int(row[0]), int(row[1]), int(row[2])


def log(path: Path) -> Path:
    return path / "_delta_log"


def commits(path: Path) -> list[list[dict[str, Any]]]:
    files = sorted(file for file in log(path).iterdir() if file.suffix == ".json" and file.stem.isdigit())
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def infos(path: Path) -> list[dict[str, Any]]:
    """What each commit says of itself, oldest first."""
    return [one["commitInfo"] for commit in commits(path) for one in commit if "commitInfo" in one]


def operations(path: Path) -> list[str]:
    return [str(info["operation"]) for info in infos(path)]


def described(path: Path) -> list[dict[str, Any]]:
    """Every protocol, schema and property that the table ever had: an operation of ours adds none."""
    return [one for commit in commits(path) for one in commit if "protocol" in one or "metaData" in one]


def data_files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts}


def live_files(path: Path, *, without_vectors: bool = False) -> set[str]:
    """By the commits alone, for tables without checkpoints."""
    live: dict[str, bool] = {}
    for commit in commits(path):
        for one in commit:
            live.pop(unquote(one.get("remove", {}).get("path", "")), None)
        live |= {unquote(one["add"]["path"]): "deletionVector" in one["add"] for one in commit if "add" in one}
    return {file for file, has_vector in live.items() if not (without_vectors and has_vector)}


def age(session: SparkSession, path: Path, days: int) -> None:
    """Make everything in a table older: the moments that its commits tell, and those of its files."""
    moments = (("commitInfo", "timestamp"), ("add", "modificationTime"), ("remove", "deletionTimestamp"))
    for file in log(path).glob("*.json"):
        kept = file.stat()
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for action in lines:
            for kind, key in moments:
                if key in action.get(kind, {}):
                    action[kind][key] -= days * DAY * 1000
        file.write_text("".join(json.dumps(action) + "\n" for action in lines))
        os.utime(file, (kept.st_atime, kept.st_mtime))
    for found in [file for file in path.rglob("*") if file.is_file()]:
        if found.suffix == ".crc":
            found.unlink()
        else:
            os.utime(found, (found.stat().st_atime - days * DAY, found.stat().st_mtime - days * DAY))
    forget(session)


def forget(session: SparkSession) -> None:
    """Delta's own memory of logs, which a test has changed behind its back."""
    jvm: Any = session.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
