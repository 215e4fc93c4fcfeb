# SPDX-License-Identifier: Apache-2.0
"""Checks requests of any interface, and says what is wrong with one."""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from lakehand.domain.errors import Invalid

T = TypeVar("T")
MOST_FAULTS = 10
# Of dataclasses and of models: the same fault, the same words.
WORDS = {
    "unexpected_keyword_argument": "Extra inputs are not permitted",
    "dataclass_type": "Input should be a valid dictionary or object to extract fields from",
}


def checked(shape: type[T], values: Mapping[str, object]) -> T:
    """The request that has these values; raises Invalid."""
    wanted: Any = shape
    try:
        request: T = adapter_of(wanted).validate_python(values)
    except ValidationError as error:
        raise invalid(error) from error
    return request


@cache
def adapter_of(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def invalid(error: ValidationError) -> Invalid:
    return Invalid("; ".join(described(fault) for fault in error.errors()[:MOST_FAULTS]))


def described(fault: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in fault.get("loc", ()))[:200]
    words = WORDS.get(str(fault.get("type")), str(fault.get("msg", "not understood")))
    return f"{where}: {words.removeprefix('Value error, ')[:500]}"
