# SPDX-License-Identifier: Apache-2.0
"""Real Hudi tables for tests, written by PySpark; also a program, for writers with another Hudi than the test's own."""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests import spark_session

WRITTEN = "written\n"
MERGE_ON_READ = "MERGE_ON_READ"
COPY_ON_WRITE = "COPY_ON_WRITE"
SCHEMA = "id int, p string, v long, note string, ts long"
PARTITIONS = 2
INSTANT_FILE = re.compile(r"(\d{14,17})(?:_(\d{14,17}))?\.([a-z]+)(?:\.(requested|inflight))?")

# A writer that leaves the services to others.
QUIET: Mapping[str, str] = {
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}

# Writers of Hudi 1.2 whose tables are of an older version, or of its own.
VERSIONS: Mapping[int, Mapping[str, str]] = {
    6: {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"},
    8: {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"},
    9: {},
}
LOG_COMPACTION = {"hoodie.log.compaction.enable": "true", "hoodie.log.compaction.blocks.threshold": "2"}


def scheduling_compaction(every: int) -> dict[str, str]:
    return {"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": str(every)}


def scheduling_clustering(every: int) -> dict[str, str]:
    return {"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.async.max.commits": str(every)}


def start_session(format: str = "hudi", **conf: str) -> SparkSession:
    """A small local session with the jars of one Hudi version."""
    return spark_session.start_session(format, **conf)


def make_table(
    session: SparkSession,
    path: Path,
    *,
    table_type: str = MERGE_ON_READ,
    commits: int = 3,
    rows: int = 40,
    options: Mapping[str, str] | None = None,
) -> None:
    """A table after some commits: the first inserts all rows, each later one changes them all."""
    for number in range(1, commits + 1):
        upsert(session, path, number=number, table_type=table_type, rows=rows, options=options)


def upsert(
    session: SparkSession,
    path: Path,
    *,
    number: int,
    table_type: str = MERGE_ON_READ,
    rows: int = 40,
    options: Mapping[str, str] | None = None,
) -> None:
    """The commit with this number: every row gets the value ``number * 1000 + id``."""
    settings = write_options(path, table_type, options or {})
    frame(session, number, rows).write.format("hudi").options(**settings).mode("append").save(str(path))


def write_options(path: Path, table_type: str, options: Mapping[str, str]) -> dict[str, str]:
    return {
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.datasource.write.precombine.field": "ts",
        **QUIET,
        **options,
    }


def upsert_partitions(
    session: SparkSession,
    path: Path,
    partitions: Sequence[str],
    *,
    number: int,
    table_type: str = MERGE_ON_READ,
    options: Mapping[str, str] | None = None,
) -> None:
    """Five rows in each of these partitions, with the value ``number``."""
    data = [(i, partition, number, f"commit {number}", number) for partition in partitions for i in range(5)]
    written = session.createDataFrame(data, SCHEMA).coalesce(1).write.format("hudi").mode("append")
    written.options(**write_options(path, table_type, options or {})).save(str(path))


def values(session: SparkSession, path: Path | str, **options: str) -> dict[str, int]:
    """The value of each partition, for a reader who sets nothing but the given options."""
    read = session.read.format("hudi").options(**options).load(str(path))
    return {row.p: row.v for row in read.select("p", "v").distinct().collect()}


def frame(session: SparkSession, number: int, rows: int) -> DataFrame:
    data = [(i, f"p{i % PARTITIONS}", number * 1000 + i, f"commit {number}", number) for i in range(rows)]
    return session.createDataFrame(data, SCHEMA).coalesce(1)


def expected(number: int, rows: int = 40) -> list[tuple[Any, ...]]:
    """What a table holds after the commit with this number."""
    return [(i, f"p{i % PARTITIONS}", number * 1000 + i, f"commit {number}", number) for i in range(rows)]


def rows(session: SparkSession, path: Path | str, **options: str) -> list[tuple[Any, ...]]:
    """All rows as a reader sees them who sets nothing but the given options."""
    read = session.read.format("hudi").options(**options).load(str(path))
    return sorted(tuple(row) for row in read.select("id", "p", "v", "note", "ts").collect())


def timeline(path: Path) -> Path:
    folder = path / ".hoodie" / "timeline"
    return folder if folder.is_dir() else path / ".hoodie"


def instant_files(path: Path) -> list[re.Match[str]]:
    return [found for file in sorted(timeline(path).iterdir()) if (found := INSTANT_FILE.fullmatch(file.name))]


def pending(path: Path) -> list[tuple[str, str]]:
    """(instant, action) of plans without a completed file, read from the file names alone."""
    done = {found[1] for found in instant_files(path) if not found[4] and found[3] != "inflight"}
    open_ones = [(found[1], found[3]) for found in instant_files(path) if found[4] and found[1] not in done]
    return list(dict.fromkeys(open_ones))


def completed(path: Path, instant: str) -> list[str]:
    """Names of the completed files of one instant: exactly one when all is well."""
    return [
        found[0] for found in instant_files(path) if found[1] == instant and not found[4] and found[3] != "inflight"
    ]


def properties(path: Path) -> dict[str, str]:
    """hoodie.properties without its comments and its checksum."""
    lines = (path / ".hoodie" / "hoodie.properties").read_text().splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key: value for key, _, value in pairs if key != "hoodie.table.checksum"}


def leave_clean_plan(session: SparkSession, path: Path, options: Mapping[str, str], *, retained: int = 1) -> str:
    """Plan a clean and do not run it, as a writer does that has handed its cleans over."""
    service: Any = session.sparkContext._jvm.org.apache.hudi.common.model.TableServiceType.CLEAN  # type: ignore[union-attr]
    with write_client(session, path, {**options, "hoodie.clean.commits.retained": str(retained)}) as client:
        return str(client.scheduleTableService(nothing(session), service).get())


def leave_log_compaction_plan(session: SparkSession, path: Path, options: Mapping[str, str]) -> str:
    """Plan a log compaction and do not run it, as a writer does that has handed them over."""
    with write_client(session, path, {**options, **LOG_COMPACTION}) as client:
        return str(client.scheduleLogCompaction(nothing(session)).get())


def nothing(session: SparkSession) -> Any:
    jvm: Any = session.sparkContext._jvm
    return jvm.org.apache.hudi.common.util.Option.empty()


@contextmanager
def write_client(session: SparkSession, path: Path, options: Mapping[str, str]) -> Iterator[Any]:
    """Hudi's own client of a table, for what Spark has no statement for."""
    own = session.newSession()
    for key, value in options.items():
        own.conf.set(key, value)
    jvm: Any = session.sparkContext._jvm
    no_options = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})
    create = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
    client = create(own._jsparkSession, str(path), no_options, jvm.scala.Option.empty())
    try:
        yield client
    finally:
        client.close()


def pretend_to_write(path: Path) -> list[Path]:
    """The traces of a writer in the middle of a commit, one that sends no heartbeats."""
    instant = "20991231235959000"
    files = [timeline(path) / f"{instant}.commit.requested", timeline(path) / f"{instant}.inflight"]
    for file in files:
        file.touch()
    return files


@contextmanager
def write_under_way(path: Path, action: str = "commit") -> Iterator[str]:
    """What a writer leaves in the table when it begins; its instant."""
    instant = "20990101000000000"
    begun, heartbeat = timeline(path) / f"{instant}.{action}.requested", path / ".hoodie" / ".heartbeat" / instant
    heartbeat.parent.mkdir(exist_ok=True)
    for file in (heartbeat, begun):
        file.touch()
    yield instant
    for file in (begun, heartbeat):
        file.unlink()


def let_heartbeats_expire(path: Path) -> None:
    """Two minutes after whoever sent them has died, nobody waits for them any more."""
    then = time.time() - 600
    for file in (path / ".hoodie" / ".heartbeat").iterdir():
        os.utime(file, (then, then))


def make_older(path: Path, days: int) -> None:
    """Let everything that was written until now have been written some days ago, in a table without a metadata table.

    Instants are in the names of files, and in the timeline and in logs as text of the same length.
    """
    known = {one for found in instant_files(path) for one in found.groups()[:2] if one}
    older = {one: earlier(one, days) for one in known}
    then = time.time() - days * 86_400
    for file in [one for one in path.rglob("*") if one.is_file()]:
        content = file.read_bytes()
        target = file.with_name(replaced(file.name.encode(), older).decode())
        file.unlink()
        if file.suffix != ".crc":
            target.write_bytes(content if file.suffix == ".parquet" else replaced(content, older))
            os.utime(target, (then, then))


def earlier(instant: str, days: int) -> str:
    moment = datetime.strptime(instant[:14], "%Y%m%d%H%M%S") - timedelta(days=days)  # noqa: DTZ007
    return f"{moment:%Y%m%d%H%M%S}{instant[14:]}"


def replaced(content: bytes, older: Mapping[str, str]) -> bytes:
    for instant, earlier_one in older.items():
        content = content.replace(instant.encode(), earlier_one.encode())
    return content


def take_index_away(path: Path, name: str) -> None:
    """Make a table look as if its writer had never built one of the metadata table's indexes."""
    shutil.rmtree(path / ".hoodie" / "metadata" / name)
    file = path / ".hoodie" / "hoodie.properties"
    (file.parent / f".{file.name}.crc").unlink()
    key = "hoodie.table.metadata.partitions="
    kept = ",".join(index for index in properties(path)[key[:-1]].split(",") if index != name)
    lines = [f"{key}{kept}" if line.startswith(key) else line for line in file.read_text().splitlines()]
    file.write_text("\n".join([*lines, ""]))


Write = Callable[..., None]  # given one or more steps: the arguments of ``make_table`` or ``upsert``


@contextmanager
def writer_elsewhere(path: Path, format: str = "hudi-0.15") -> Iterator[Write]:
    """A writer of one table with another Hudi, in a process of its own."""
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    command = [sys.executable, "-m", "tests.hudi_tables", str(path), format]
    with Popen(command, cwd=root, env=environment, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        orders, answers = process.stdin, process.stdout

        def write(*steps: Mapping[str, Any]) -> None:
            for step in steps:
                print(json.dumps(step), file=orders, flush=True)
                assert WRITTEN in answers, f"the writer died of {step}"

        yield write
        orders.close()
    assert process.returncode == 0


def main(path: Path, format: str) -> None:
    """One step per line, until there are no more."""
    session = start_session(format)
    for step in map(json.loads, sys.stdin):
        (upsert if "number" in step else make_table)(session, path, **step)
        sys.stdout.write(WRITTEN)
        sys.stdout.flush()
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
