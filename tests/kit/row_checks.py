# SPDX-License-Identifier: Apache-2.0
"""Operations whose rows are compared, admitted for one table of any format."""

from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehand.spi import Format, Operation, TableProcess, TableSpec
from lakehand.testing.harness import PluginHarness


def harness_of(spark: SparkSession, format: str, path: Path) -> PluginHarness:
    factory, reader = (plugin_of(group, format) for group in ("process_factories", "table_formats"))
    spec = TableSpec(location=str(path), format=Format(format), table_name=path.name)
    return PluginHarness(factory=factory, format=reader, spec=spec, session=spark)


def plugin_of(group: str, name: str) -> Any:
    found = next(one.load()() for one in entry_points(group=f"lakehand.{group}") if one.name == name)
    found.open({})
    return found


def admitted(table: PluginHarness, action: str, **asked: Any) -> Operation:
    """By a plan in the table, or because a person asks for it, so that no threshold counts."""
    wanted = table.wants(action) if table.spec.format == "hudi" else None
    stored = table.stored(wanted) if isinstance(wanted, TableProcess) else table.asked(action)
    return verifying(table.admitted(stored), **asked)


def verifying(operation: Operation, **asked: Any) -> Operation:
    parameters = {**operation.process.parameters, "verify_rows": {"mode": "checksum", **asked}}
    return replace(operation, process=replace(operation.process, parameters=parameters))
