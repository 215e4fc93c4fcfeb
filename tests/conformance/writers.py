# SPDX-License-Identifier: Apache-2.0
"""Writers that change all rows in each commit: Spark with one of four versions of Hudi, and Hudi's Java client."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from lakehand.writer import MERGE_ON_READ
from tests import hudi_client
from tests import hudi_tables as hudi

HERE = "1.2.0"
JARS = {"0.15.0": "hudi-0.15", "1.0.2": "hudi-1.0.2", "1.1.1": "hudi-1.1.1"}
JAVA = "1.2.1"
ROWS = 20
BUCKETS = {"hoodie.bucket.index.num.buckets": "2"}  # the number is the user's own choice; 256 are many for 20 rows


class Writer(Protocol):
    path: Path

    def write(self, number: int, **options: str) -> None:
        """The commit with this number; fails if the writer does."""

    def read(self, session: SparkSession) -> object:
        """What a reader with default settings sees."""

    def expected(self, number: int) -> object: ...


@dataclass(kw_only=True)
class SparkWriter:
    """In this process, or with another Hudi in one of its own."""

    path: Path
    options: Mapping[str, str]
    table_type: str
    session: SparkSession
    elsewhere: hudi.Write | None = None

    def write(self, number: int, **options: str) -> None:
        wanted = {**BUCKETS, **self.options, **options}
        step: dict[str, Any] = {"number": number, "table_type": self.table_type, "rows": ROWS, "options": wanted}
        self.elsewhere(step) if self.elsewhere else hudi.upsert(self.session, self.path, **step)

    def read(self, session: SparkSession) -> object:
        return hudi.rows(session, self.path)

    def expected(self, number: int) -> object:
        return hudi.expected(number, ROWS)


@dataclass(kw_only=True)
class JavaWriter:
    """One run of Hudi's Java client for each commit."""

    path: Path
    options: Mapping[str, str]
    table_type: str
    failures: list[str] = field(default_factory=list)

    def write(self, number: int, **options: str) -> None:
        done = hudi_client.run(
            self.path, name=self.path.name, start_commit=number, rows=ROWS, partitions=2, table_type=self.table_type,
            options={**self.options, **options},
        )  # fmt: skip
        assert done.errors == ()

    def read(self, session: SparkSession) -> object:
        read = session.read.format("hudi").load(str(self.path))
        [row] = read.selectExpr("count(1)", "sum(value)").collect()
        return row[0], row[1]

    def expected(self, number: int) -> object:
        return ROWS, hudi_client.expected_sum(rows=ROWS, last_commit=number)


@contextmanager
def writer(
    version: str, session: SparkSession, path: Path, options: Mapping[str, str], table_type: str = MERGE_ON_READ
) -> Iterator[Writer]:
    if version == JAVA:
        yield JavaWriter(path=path, options=options, table_type=table_type)
    elif version == HERE:
        yield SparkWriter(path=path, options=options, table_type=table_type, session=session)
    else:
        with hudi.writer_elsewhere(path, JARS[version]) as elsewhere:
            yield SparkWriter(path=path, options=options, table_type=table_type, session=session, elsewhere=elsewhere)
