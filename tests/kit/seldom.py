# SPDX-License-Identifier: Apache-2.0
"""Values of parametrised tests that take long, while others are much alike: run by CI alone, or before a release."""

from typing import Any

import pytest


def seldom(*values: object) -> list[Any]:
    return [pytest.param(value, marks=pytest.mark.minutes) for value in values]


def before_release(*values: object) -> list[Any]:
    return [pytest.param(value, marks=pytest.mark.release) for value in values]
