# SPDX-License-Identifier: Apache-2.0
"""Says what is wrong with a request."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lakehand.domain.errors import Invalid

MOST_FAULTS = 10
# Of dataclasses and of models: the same fault, the same words.
WORDS = {
    "unexpected_keyword_argument": "Extra inputs are not permitted",
    "dataclass_type": "Input should be a valid dictionary or object to extract fields from",
}


def invalid(error: ValidationError) -> Invalid:
    return Invalid("; ".join(described(fault) for fault in error.errors()[:MOST_FAULTS]))


def described(fault: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in fault.get("loc", ()))[:200]
    words = WORDS.get(str(fault.get("type")), str(fault.get("msg", "not understood")))
    return f"{where}: {words.removeprefix('Value error, ')[:500]}"
