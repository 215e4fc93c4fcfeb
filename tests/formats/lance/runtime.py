# SPDX-License-Identifier: Apache-2.0
"""A harness of one Lance table, opened as the service opens its plugins."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lakehand.formats.lance import LanceFormat, LanceProcessFactory
from lakehand.testing.harness import PluginHarness
from tests import lance_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = {"lance.compact.target-rows": "300"}


def harness(
    path: Path,
    properties: Mapping[str, str] | None = None,
    *,
    plugin: Mapping[str, str] | None = None,
    session: "SparkSession | None" = None,
) -> PluginHarness:
    factory, reader = LanceProcessFactory(), LanceFormat()
    factory.open(plugin or {})
    reader.open({})
    spec = lance_tables.spec(path, SMALL if properties is None else properties)
    return PluginHarness(factory=factory, format=reader, spec=spec, properties=plugin or {}, session=session)
