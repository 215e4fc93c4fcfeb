# SPDX-License-Identifier: Apache-2.0
"""The service in small for Iceberg tables, with hooks: something happens just when the job says where it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehand.formats.iceberg import IcebergFormat, IcebergProcessFactory
from lakehand.formats.iceberg.table import ICEBERG
from lakehand.jobs.iceberg import tables
from lakehand.jobs.job import Job
from lakehand.spi import Operation, Skip, TableProcess, TableSpec
from lakehand.testing.harness import PluginHarness, boundary_parameter
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import Warehouse
from tests.kit.interruptions import Hook, Interruptions, run_job


def harness(spark: SparkSession, path: Path, properties: Mapping[str, str] | None = None) -> PluginHarness:
    spec = TableSpec(location=str(path), format=ICEBERG, table_name=path.name, properties=properties or {})
    return PluginHarness(factory=IcebergProcessFactory(), format=IcebergFormat(), spec=spec, session=spark)


def execute(
    service: PluginHarness, operation: Operation, conf: Mapping[str, str] | None = None, **hooks: Hook
) -> dict[str, Any]:
    """Run the job as the driver does, with hooks by the first word of a phase."""
    return execute_raw(service, operation.process.job, operation.process.parameters, conf, **hooks)


def execute_raw(
    service: PluginHarness,
    job: str,
    parameters: Mapping[str, Any],
    conf: Mapping[str, str] | None = None,
    **hooks: Hook,
) -> dict[str, Any]:
    return run_job(service.session, job, parameters, Interruptions(hooks=dict(hooks)), conf)


def reason(answer: TableProcess | Skip) -> str:
    """Why the table needs something."""
    assert isinstance(answer, TableProcess), answer
    return answer.reason


def skipped(answer: TableProcess | Skip) -> str:
    """Why the table needs nothing."""
    assert isinstance(answer, Skip), answer
    return answer.reason


def admitted(service: PluginHarness, action: str) -> Operation:
    wanted = service.wants(action)
    assert isinstance(wanted, TableProcess), wanted
    return service.admitted(service.stored(wanted))


def junk(table: Path, name: str, *, days: float = 10) -> Path:
    file = table / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"left behind")
    iceberg.age_file(file, days)
    return file


def adopt(warehouse: Warehouse, table: Path, file: Path) -> None:
    """What a writer of many days does at its end: commit a file that has been there for long."""
    java: Any = warehouse.session.sparkContext._jvm
    found = opened(warehouse, table)
    builder = java.org.apache.iceberg.DataFiles.builder(found.spec()).withPath(str(file)).withFormat("parquet")
    size = file.stat().st_size
    new = builder.withFileSizeInBytes(size).withRecordCount(5).withPartitionPath("p=p0").build()
    found.newAppend().appendFile(new).commit()


def given(path: Path, **parameters: Any) -> dict[str, Any]:
    """Parameters that no admission made; the boundary is that of the table, unless they say otherwise."""
    found = {"location": str(path), "boundary": boundary_parameter(str(path)), **parameters}
    return {"identity": iceberg.metadata(path)["table-uuid"], **found}


def opened(warehouse: Warehouse, table: Path) -> Any:
    """The Java table, as a writer has it."""
    return tables.load(Job(warehouse.session, given(table)))
