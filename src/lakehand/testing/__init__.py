# SPDX-License-Identifier: Apache-2.0
"""The contract suites, published: subclass them in your tests to prove a plugin against what the service relies on.

Needs pytest: ``pip install "lakehand[testing]"``.
"""

# ruff: noqa: E402 - the imports below must come after the registration
import pytest

# A contract that fails in someone else's tests must say what it compared.
pytest.register_assert_rewrite(
    "lakehand.testing.engines",
    "lakehand.testing.factories",
    "lakehand.testing.formats",
    "lakehand.testing.harness",
)

from lakehand.testing.engines import EngineUnderTest, ExecuteEngineContract, eventually
from lakehand.testing.factories import ProcessFactoryContract
from lakehand.testing.formats import FormatUnderTest, TableFormatContract, installed_format, untouched
from lakehand.testing.harness import PluginHarness

__all__ = [
    "EngineUnderTest",
    "ExecuteEngineContract",
    "FormatUnderTest",
    "PluginHarness",
    "ProcessFactoryContract",
    "TableFormatContract",
    "eventually",
    "installed_format",
    "untouched",
]
