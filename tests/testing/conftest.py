# SPDX-License-Identifier: Apache-2.0
"""Lance takes pyspark's start of a JVM, a fork with an exec, for a fork without: that one warning is no error."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:lance is not fork-safe:UserWarning")
