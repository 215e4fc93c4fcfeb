# SPDX-License-Identifier: Apache-2.0
"""Tables of every format with a few changes that nobody has merged, each as old as a test says, and their decisions."""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import lance

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.iceberg import IcebergProcessFactory
from lakehand.formats.iceberg.manifests import ContentFile
from lakehand.spi import Action, Scheduling, Skip, TableProcess
from tests import lance_tables
from tests.formats.delta.logs import LogTable, add
from tests.formats.hudi.runtime import FILE_LOCK, MemoryRuntime, copied, set_property, timeline
from tests.formats.iceberg.made import MB, MadeRuntime, commit, data, deletes, snapshot
from tests.formats.lance.runtime import SMALL
from tests.formats.lance.runtime import harness as lance_harness
from tests.formats.paimon.handmade import HandMade, small
from tests.formats.paimon.runtime import harness as paimon_harness

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)
Ages = Sequence[timedelta]  # of the changes at noon, the oldest first


def hours(*ages: float) -> Ages:
    return [timedelta(hours=age) for age in ages]


def second(ages: Ages) -> timedelta:
    return ages[1]


@dataclass(frozen=True)
class Triggered(ABC):
    """One action of a format. ``least``: the changes that a run by age must find. ``age``: the one that counts."""

    action: str
    number: str  # the name of its threshold
    least: int = 2
    age: Callable[[Ages], timedelta] = second

    @property
    @abstractmethod
    def format(self) -> str: ...

    def __str__(self) -> str:
        return f"{self.format} {self.action} by {self.number}"

    def decide(
        self, folder: Path, ages: Ages, *, number: int = 99, at: datetime = NOON, **settings: str
    ) -> TableProcess | Skip:
        """``number``: the threshold."""
        keys = {self.number: str(number), **{name.replace("_", "-"): value for name, value in settings.items()}}
        return self.ask(folder, ages, at, {f"{self.format}.{self.action}.{key}": value for key, value in keys.items()})

    @abstractmethod
    def ask(self, folder: Path, ages: Ages, at: datetime, settings: dict[str, str]) -> TableProcess | Skip:
        """Make the table and decide."""


def name_of(at: datetime) -> str:
    return f"{at:%Y%m%d%H%M%S}000"


def hudi_table(folder: Path, ages: Ages, name: str = "orders_v9", kind: str = "deltacommit") -> Path:
    """The names of its instants say nothing of the ages: they are the local times of a writer far away."""
    table = copied(name, folder)
    for file in timeline(table).iterdir():
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    if timeline(table).name == ".hoodie":
        shutil.copy(copied(name, folder / "again") / ".hoodie" / "hoodie.properties", timeline(table))
    for age in ages:
        at = NOON - age
        far = at + timedelta(hours=9)
        completed = f"{name_of(far)}_{name_of(far)}" if timeline(table).name == "timeline" else name_of(far)
        file = timeline(table) / f"{completed}.{kind}"
        file.touch()
        os.utime(file, (at.timestamp(), at.timestamp()))
    return table


def hudi_runtime(table: Path, at: datetime, settings: dict[str, str]) -> MemoryRuntime:
    properties = {**FILE_LOCK, "hudi.clean.retain-commits": "2", **settings}
    runtime = MemoryRuntime(table, scheduling=Scheduling.SERVICE, properties=properties)
    runtime.now = at
    return runtime


class Hudi(Triggered):
    format = "hudi"

    def ask(self, folder: Path, ages: Ages, at: datetime, settings: dict[str, str]) -> TableProcess | Skip:
        table = hudi_table(folder / f"{len(list(folder.iterdir()))}", ages)
        if self.action == "clean":
            for file in range(3):  # which the last clean has seen
                (timeline(table) / f"2020010100000{file}000_2020010100000{file}000.deltacommit").touch()
            (timeline(table) / "20200102000000000_20200102000000000.clean").touch()
        factory = HudiProcessFactory()
        factory.open({})
        return factory.trigger(hudi_runtime(table, at, settings), Action(self.action))


class Iceberg(Triggered):
    format = "iceberg"

    def ask(self, folder: Path, ages: Ages, at: datetime, settings: dict[str, str]) -> TableProcess | Skip:
        commits = [
            commit(number, int((NOON - age).timestamp() * 1000), parent=number - 1 or None)
            for number, age in enumerate(ages, 1)
        ]
        made = snapshot(
            files=[*self.files(len(ages)), data(600 * MB, name="full")], commits=commits,
            properties={"write.delete.granularity": "partition"},
        )  # fmt: skip
        runtime = MadeRuntime(made, **{key.removeprefix("iceberg."): value for key, value in settings.items()})
        runtime.now = at
        return IcebergProcessFactory().trigger(runtime, Action(self.action))

    def files(self, count: int) -> list[ContentFile]:
        made = [data(MB, name=f"{n}") if self.action == "rewrite-data" else deletes() for n in range(count)]
        return [file._replace(added_by=number) for number, file in enumerate(made, 1)]


class Delta(Triggered):
    format = "delta"

    def ask(self, folder: Path, ages: Ages, at: datetime, settings: dict[str, str]) -> TableProcess | Skip:
        files = [add(f"{number}.parquet", MB, days_ago=age / DAY) for number, age in enumerate(ages)]
        harness = LogTable(folder / f"{len(list(folder.iterdir()))}", files).harness(
            **{key.removeprefix("delta."): value for key, value in settings.items()}
        )
        harness.now = lambda: at
        return harness.wants(self.action)


class Paimon(Triggered):
    format = "paimon"

    def ask(self, folder: Path, ages: Ages, at: datetime, settings: dict[str, str]) -> TableProcess | Skip:
        keyed: dict[str, Any] = {"primary_keys": ["id"]} if self.number == "sorted-runs" else {}
        options = {"write-only": "true", **({"bucket": "1"} if keyed else {})}
        made = HandMade(folder / f"{len(list(folder.iterdir()))}", options=options, **keyed)
        for number, age in enumerate(ages):
            made.commit(small(1, prefix=f"{number}", created=NOON - age), at=NOON - age)
        service = paimon_harness(made.root, **{key.removeprefix("paimon."): value for key, value in settings.items()})
        service.now = lambda: at
        return service.wants(self.action)


class Lance(Triggered):
    format = "lance"

    def ask(self, folder: Path, ages: Ages, at: datetime, settings: dict[str, str]) -> TableProcess | Skip:
        path = lance_tables.make_table(folder / f"{len(list(folder.iterdir()))}", fragments=len(ages))
        for fragment, age in zip(lance.dataset(str(path)).get_fragments(), ages, strict=True):
            written = (NOON - age).timestamp()
            os.utime(path / "data" / fragment.metadata.files[0].path, (written, written))
        service = lance_harness(path, {**SMALL, **settings})
        service.now = lambda: at
        return service.wants(self.action)


def oldest(ages: Ages) -> timedelta:
    return ages[0]


def by_paimon(ages: Ages) -> timedelta:
    """As far as it is certain wherever the writer is, and at least as old as the newest commit."""
    return max(ages[1] - timedelta(hours=12), ages[-1])


COMPACTION = Hudi("compaction", "delta-commits", least=1, age=oldest)
CLUSTERING = Hudi("clustering", "commits", age=oldest)
CLEANING = Hudi("clean", "commits", least=1, age=oldest)
REWRITE_DATA = Iceberg("rewrite-data", "min-input-files")
REWRITE_DELETES = Iceberg("rewrite-position-deletes", "min-input-files")
OPTIMIZE = Delta("optimize", "min-files")
PACK = Paimon("compact", "min-files", age=by_paimon)
MERGE = Paimon("compact", "sorted-runs", age=by_paimon)
COMPACT = Lance("compact", "min-fragments")
EVERY = [COMPACTION, CLUSTERING, CLEANING, REWRITE_DATA, REWRITE_DELETES, OPTIMIZE, PACK, MERGE, COMPACT]


def in_utc(table: Path) -> None:
    set_property(table, "hoodie.table.timeline.timezone", "UTC")
