# SPDX-License-Identifier: Apache-2.0
"""A missing Prometheus is a visible skip on a developer's machine and a failure where all must be tested."""

import os

import pytest

from tests.deploy.prometheus_server import PrometheusMissing, program
from tests.examples.conftest import examples

__all__ = ["examples"]


@pytest.fixture(scope="session")
def prometheus_installed() -> None:
    try:
        for name in ("promtool", "prometheus"):
            program(name)
    except PrometheusMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
