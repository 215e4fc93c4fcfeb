# SPDX-License-Identifier: Apache-2.0
"""A harness of a table whose time is a test's own."""

from pathlib import Path

from lakehand.formats.paimon import PaimonFormat, PaimonProcessFactory
from lakehand.formats.paimon.table import PAIMON
from lakehand.spi import Skip, TableProcess, TableSpec
from lakehand.testing import PluginHarness
from tests.formats.paimon.handmade import NOON


def harness(root: Path, **properties: str) -> PluginHarness:
    """At noon. Properties with dots as double underscores: ``compact__strategy``."""
    own = {f"paimon.{key.replace('__', '.').replace('_', '-')}": value for key, value in properties.items()}
    spec = TableSpec(location=str(root), format=PAIMON, properties=own)
    return PluginHarness(factory=PaimonProcessFactory(), format=PaimonFormat(), spec=spec, now=lambda: NOON)


def skipped(service: PluginHarness, action: str) -> str:
    answer = service.wants(action)
    assert isinstance(answer, Skip), answer
    return answer.reason


def wanted(service: PluginHarness, action: str) -> str:
    answer = service.wants(action)
    assert isinstance(answer, TableProcess), answer
    return answer.reason
