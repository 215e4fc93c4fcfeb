# SPDX-License-Identifier: Apache-2.0
"""Live writers of one table beside a running service: Spark's with two versions of Hudi, and Hudi's Java client.

Odd rounds update some rows and insert some, even rounds only insert; the Java client updates all rows in each round.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Protocol

from pyspark.sql import SparkSession

from lakehand.writer import COPY_ON_WRITE, MERGE_ON_READ, file_lock, hudi_options
from tests import hudi_client, hudi_tables

ROWS = 20_000  # of the first round; enough for a clustering that can be met in its middle
CHANGED = 100
ADDED = 20
KINDS = ("spark-1.2", "spark-0.15", "java")
LOGGING = "spark-1.2-merge-on-read"
METADATA = "spark-1.2-metadata-table"
VERSIONS = {"spark-1.2": "1.2.0", LOGGING: "1.2.0", METADATA: "1.2.0", "spark-0.15": "0.15.0", "java": "1.2.1"}

Facts = tuple[int, int]  # rows, and the sum of their values


class Writer(Protocol):
    path: Path
    value: str  # the column to add up

    def write(self, number: int) -> str | None:
        """One statement; why it failed, or None."""

    def expected(self, number: int) -> Facts: ...


def lock_folders(folder: Path) -> dict[str, str]:
    """Settings of a service whose tables may have their locks there."""
    hudi = {"properties": {"hudi.lock-folders": str(folder)}}
    return {"plugins": json.dumps({"process-factories": {"hudi": hudi}})}


def writer_options(kind: str, url: str, lock: Path) -> dict[str, str]:
    """As a user gets them. The Java client names Java classes in its plans, so there the service alone plans."""
    actions, kept = ["clustering", "clean"], file_lock(str(lock))
    scheduling = "service" if kind == "java" else "writer"
    return hudi_options(
        url, hudi_version=VERSIONS[kind], actions=actions, table_type=type_of(kind), lock=kept, scheduling=scheduling
    )


def type_of(kind: str) -> str:
    return MERGE_ON_READ if kind == LOGGING else COPY_ON_WRITE


@dataclass(kw_only=True)
class SparkWriter:
    """In this process."""

    session: SparkSession
    path: Path
    options: Mapping[str, str]
    table_type: str = COPY_ON_WRITE
    metadata: bool = False  # whether the table has Hudi's metadata table
    value: str = "v"

    def write(self, number: int) -> str | None:
        operation = "upsert" if number % 2 else "insert"
        settings = hudi_tables.write_options(self.path, self.table_type, self.options)
        settings |= {"hoodie.datasource.write.operation": operation}
        settings |= {"hoodie.metadata.enable": str(self.metadata).lower()}
        frame = self.session.range(0, 1).selectExpr("id").where("false")
        for first, count in rows_of(number):
            frame = frame.union(self.session.range(first, first + count).selectExpr("id"))
        columns = [
            "cast(id as int) as id",
            "concat('p', cast(id % 2 as string)) as p",
            f"cast({number} * 1000000 + id as long) as v",
            "sha2(cast(id as string), 512) as note",
            f"cast({number} as long) as ts",
        ]
        written = frame.selectExpr(*columns).repartition(2).write.format("hudi").options(**settings)
        return reason_of(lambda: written.mode("append").save(str(self.path)))

    def expected(self, number: int) -> Facts:
        return expected_of(number)


def rows_of(number: int) -> list[tuple[int, int]]:
    """(first, count) of the rows that a round writes."""
    if number == 1:
        return [(0, ROWS)]
    added = (ROWS + (number - 2) * ADDED, ADDED)
    return [(0, CHANGED), added] if number % 2 else [added]


def expected_of(number: int) -> Facts:
    values: dict[int, int] = {}
    for each in range(1, number + 1):
        values |= {i: each * 1_000_000 + i for first, count in rows_of(each) for i in range(first, first + count)}
    return len(values), sum(values.values())


def reason_of(statement: Callable[[], None]) -> str | None:
    try:
        statement()
    except Exception as error:  # a failed statement is what these tests count
        return f"{type(error).__name__}: {error}"
    return None


@dataclass(kw_only=True)
class ElsewhereWriter:
    """Spark with another Hudi, in a process of its own."""

    path: Path
    commands: IO[str]
    answers: IO[str]
    value: str = "v"

    def write(self, number: int) -> str | None:
        print(number, file=self.commands, flush=True)
        for line in self.answers:
            if line.startswith("{"):
                answer: dict[str, str | None] = json.loads(line)
                return answer["failed"]
        return "the writer died"

    def expected(self, number: int) -> Facts:
        return expected_of(number)


@dataclass(kw_only=True)
class JavaWriter:
    """One run of Hudi's Java client for each round."""

    path: Path
    options: Mapping[str, str]
    rows: int = field(default=2000)
    value: str = "value"

    def write(self, number: int) -> str | None:
        rows = self.rows + number * ADDED
        done = hudi_client.run(
            self.path, name=self.path.name, start_commit=number, rows=rows, partitions=2, table_type=COPY_ON_WRITE,
            options=self.options,
        )  # fmt: skip
        return "; ".join(done.errors) or None

    def expected(self, number: int) -> Facts:
        rows = self.rows + number * ADDED
        return rows, hudi_client.expected_sum(rows=rows, last_commit=number)


@contextmanager
def live_writer(kind: str, session: SparkSession, path: Path, url: str, lock: Path) -> Iterator[Writer]:
    options = writer_options(kind, url, lock)
    if kind in ("spark-1.2", LOGGING, METADATA):
        yield SparkWriter(
            session=session, path=path, options=options, table_type=type_of(kind), metadata=kind == METADATA
        )
    elif kind == "java":
        yield JavaWriter(path=path, options=options)
    else:
        with elsewhere(path, options) as writer:
            yield writer


@contextmanager
def elsewhere(path: Path, options: Mapping[str, str]) -> Iterator[ElsewhereWriter]:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    command = [sys.executable, "-m", "tests.e2e.writers", str(path), "hudi-0.15", json.dumps(dict(options))]
    with Popen(command, cwd=root, env=environment, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield ElsewhereWriter(path=path, commands=process.stdin, answers=process.stdout)
        process.stdin.close()


def facts(session: SparkSession, writer: Writer) -> Facts:
    """What a reader with default settings sees."""
    read = session.read.format("hudi").load(str(writer.path))
    [row] = read.selectExpr("count(1)", f"sum({writer.value})").collect()
    return int(row[0]), int(row[1])


def main(path: Path, format: str, options: Mapping[str, str]) -> None:
    session = hudi_tables.start_session(format)
    writer = SparkWriter(session=session, path=path, options=options)
    for line in sys.stdin:
        sys.stdout.write(json.dumps({"failed": writer.write(int(line))}) + "\n")
        sys.stdout.flush()
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
