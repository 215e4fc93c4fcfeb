# SPDX-License-Identifier: Apache-2.0
"""Says what is wrong with a request."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lakehand.domain.errors import Invalid

MOST_FAULTS = 10


def invalid(error: ValidationError) -> Invalid:
    return Invalid("; ".join(described(fault) for fault in error.errors()[:MOST_FAULTS]))


def described(fault: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in fault.get("loc", ()))[:200]
    return f"{where}: {str(fault.get('msg', 'not understood')).removeprefix('Value error, ')[:500]}"
