# SPDX-License-Identifier: Apache-2.0
"""One real table of each format that needs its actions: made once, attacked many times, and put back each time."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyspark.sql import SparkSession

from lakehand.formats.delta import DeltaFormat, DeltaProcessFactory
from lakehand.formats.hudi import HudiFormat, HudiProcessFactory
from lakehand.formats.iceberg import IcebergFormat, IcebergProcessFactory
from lakehand.formats.lance import LanceFormat, LanceProcessFactory
from lakehand.formats.paimon import PaimonFormat, PaimonProcessFactory
from lakehand.jobs.boundary import OutsideTable
from lakehand.spi import Format, Operation, ProcessFactory, Scheduling, TableFormat, TableProcess, TableSpec
from lakehand.testing.harness import PluginHarness
from tests import delta_tables, hudi_tables, iceberg_tables, paimon_tables, small_tables
from tests.attacks.attacks import BY_LINK, PLAIN, AttackedTable
from tests.attacks.every_job import make_lance_table
from tests.attacks.scene import fingerprint, make_old
from tests.jobs.hudi.service import LOCKING, SERVICE
from tests.kit.interruptions import Interruptions, run_job
from tests.paimon_tables import Lake, Writer

PLUGINS: Mapping[str, tuple[Callable[[], TableFormat], Callable[[], ProcessFactory]]] = {
    "hudi": (HudiFormat, HudiProcessFactory),
    "iceberg": (IcebergFormat, IcebergProcessFactory),
    "delta": (DeltaFormat, DeltaProcessFactory),
    "paimon": (PaimonFormat, PaimonProcessFactory),
    "lance": (LanceFormat, LanceProcessFactory),
}
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "hudi": {**SERVICE, "hudi.indexing.indexes": "record_index", "hudi.indexing.writers-maintain": "true"},
    "iceberg": {},
    "delta": {"delta.vacuum.mode": "full", "delta.z-order.columns": "id", "delta.clean-log.min-files": "1"},
    "paimon": {"paimon.expire-snapshots.retain-last": "1"},
    "lance": {"lance.compact.target-rows": "300"},
}
COMPACTED, NEWEST = 7, 13  # snapshots of the Paimon table


# Without it these would leave so few files as they are, and a guard that comes too late would go unnoticed.
ASKED = {action: {"options": {"rewrite-all": True}} for action in ("rewrite-data", "rewrite-position-deletes")}


def make_hudi_table(spark: SparkSession, path: Path) -> None:
    hudi_tables.make_table(spark, path, table_type=hudi_tables.MERGE_ON_READ, commits=3, rows=4, options=LOCKING)


def make_iceberg_table(spark: SparkSession, path: Path) -> None:
    """Small files, deletes, old snapshots, a file of nobody."""
    warehouse = iceberg_tables.open_warehouse(spark, path.parent)
    warehouse.create(path)
    for number in range(3):
        warehouse.append(path, start=number * 10)
    warehouse.delete(path, "id % 10 = 3")
    lost = min(file for file in iceberg_tables.data_files(path) if "deletes" not in file.name)
    shutil.copy2(lost, lost.with_name("lost.parquet"))
    iceberg_tables.age(path, 10)


def make_delta_table(spark: SparkSession, path: Path) -> None:
    """Ten days ago four files became one; another one was lost."""
    small_tables.delta(path, commits=4)
    deltalake.DeltaTable(str(path)).optimize.compact()
    shutil.copy(next(path.glob("*.parquet")), path / "part-lost.parquet")
    delta_tables.age(spark, path, 10)


def make_paimon_table(spark: SparkSession, path: Path) -> None:
    """Six commits, a compaction of their files, six more commits, a file of nobody; all but 3 snapshots are old."""
    lake = Lake(spark, path.parents[1])
    lake.create(path.name)
    writer = Writer(spark, path)
    for number in range(6):
        writer.append([number])
    options = "write-only=true,compaction.max.file-num=6"
    lake.sql(f"CALL lake.sys.compact(table => 'shop.{path.name}', options => '{options}')")
    for number in range(6, 12):
        writer.append([number])
    (path / "bucket-0" / "data-orphan.parquet").write_text("orphan")
    paimon_tables.age(path, 10, but=3)


MAKERS: Mapping[str, Callable[[SparkSession, Path], object]] = {
    "hudi": make_hudi_table,
    "iceberg": make_iceberg_table,
    "delta": make_delta_table,
    "paimon": make_paimon_table,
    "lance": lambda _, path: make_lance_table(path),
}


@dataclass(kw_only=True)
class RealTable:
    """A table below ``top``, beside a folder with what belongs to others. Its copy is somewhere else."""

    format: str
    spark: SparkSession
    top: Path
    place: AttackedTable = field(init=False)

    def __post_init__(self) -> None:
        MAKERS[self.format](self.spark, self.path)
        shutil.copytree(self.path, self.copy)

    @property
    def path(self) -> Path:
        folder = "shop.db" if self.format == "paimon" else ""
        return self.top / "lake" / folder / "trips"

    @property
    def copy(self) -> Path:
        return self.top.with_name(f"{self.top.name} copy")

    @property
    def outside(self) -> Path:
        return self.top / "outside"

    def put_back(self, how: str = PLAIN) -> AttackedTable:
        """As it was made: Iceberg's metadata names absolute paths, so that it is always at the same place."""
        shutil.rmtree(self.top)
        shutil.copytree(self.copy, self.path)
        self.outside.mkdir()
        shutil.copyfile(next(file for file in self.copy.rglob("*") if is_data(file)), self.outside / "victim.parquet")
        make_old(self.outside)
        location = self.path.with_name("by link") if how == BY_LINK else self.path
        if how == BY_LINK:
            location.symlink_to(self.path)
        if self.format == "delta":
            delta_tables.forget(self.spark)
        self.place = AttackedTable(format=self.format, table=self.path, location=location, outside=self.outside)
        return self.place

    def harness(self, **properties: str) -> PluginHarness:
        reader, factory = PLUGINS[self.format]
        more = {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}
        spec = TableSpec(
            location=str(self.place.location), format=Format(self.format), table_name=self.path.name,
            scheduling=Scheduling.SERVICE, properties={**SETTINGS[self.format], **more},
        )  # fmt: skip
        return PluginHarness(factory=factory(), format=reader(), spec=spec, session=self.spark)

    def admitted(self, action: str, **asked: Any) -> Operation:
        """As the service decides it for Hudi, whose plans have instants; as a person asks for it, of other formats."""
        subject = self.harness()
        if self.format == "hudi":
            wanted = subject.wants(action)
            assert isinstance(wanted, TableProcess), wanted
            return subject.admitted(subject.stored(wanted))
        return subject.admitted(subject.asked(action, **{**ASKED.get(action, {}), **asked}))

    def run(self, operation: Operation, step: str = "", act: Callable[[], object] = lambda: None) -> dict[str, Any]:
        """The job as the driver runs it. The act happens when it comes to the step."""
        record = Interruptions(hooks={step: act} if step else {})
        return run_job(self.spark, operation.process.job, operation.process.parameters, record)

    def stopped(self, operation: Operation, step: str = "", act: Callable[[], object] = lambda: None) -> str:
        """Why the job stops; from the attack on nothing changes, neither in the table nor outside, to the last byte."""
        before = fingerprint(self.top)

        def meddle() -> None:
            act()
            before.clear()
            before.update(fingerprint(self.top))

        with pytest.raises(OutsideTable) as caught:
            self.run(operation, step, meddle)
        assert fingerprint(self.top) == before
        return str(caught.value)


def is_data(file: Path) -> bool:
    return file.suffix in (".parquet", ".lance") and not file.name.startswith((".", "deletes", "lost"))
