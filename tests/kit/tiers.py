# SPDX-License-Identifier: Apache-2.0
"""Which tests run: the long ones by turns in CI, all of them before a release, and the rest at every change."""

from typing import Any

import pytest


def long_values(*values: object) -> list[Any]:
    """Values of a parametrised test that take long, while the test's other values show nearly the same."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]
