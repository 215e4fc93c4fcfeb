# SPDX-License-Identifier: Apache-2.0
"""Parameters of an operation that a request may set: options by allow-list, resources by shape."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from lakehand.core.intake import EXTRA_PARAMETERS
from lakehand.domain.errors import Invalid
from lakehand.domain.processes import Json
from lakehand.rest.fields import property_key

_VALUE = re.compile(r"[A-Za-z0-9_.:+-]{1,64}")
_TEXT = re.compile(r"[A-Za-z0-9_.:,+-]+( [A-Za-z0-9_.:,+-]+)*")
_RESOURCE = re.compile(r"(?:[a-z]{1,16}:)?[0-9]{1,6}[kmgt]?[:,][0-9]{1,6}[kmgt]?", re.IGNORECASE)
MOST_PARALLEL = 1_000_000
LONGEST_VALUE = 200


def allowed(options: Mapping[str, str]) -> Mapping[str, str]:
    """Hudi's options: its own list, which the wire uses, too."""
    for key, value in options.items():
        if key not in EXTRA_PARAMETERS:
            raise ValueError(f"{key[:80]!a} is not on the allow-list: {', '.join(sorted(EXTRA_PARAMETERS))}")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of {key} may hold letters, digits and ._:+- only, at most 64")
    return options


def plausible(options: Mapping[str, str]) -> Mapping[str, str]:
    """Options of any format: nothing that loads code or is a secret. Each format takes those that it knows."""
    allowed({key: value for key, value in options.items() if key.lower().startswith("hoodie.")})
    for key, value in options.items():
        property_key(key)
        if len(value) > LONGEST_VALUE or not _TEXT.fullmatch(value):
            raise ValueError(f"the value of {key} may hold letters, digits, spaces and ._:,+- only, at most 200")
    return options


Options = Annotated[dict[str, str], Field(max_length=50), AfterValidator(plausible)]


def read_options(text: str) -> Mapping[str, str]:
    """RFC-43's ``extra_params``: ``key=value`` pairs with semicolons between them."""
    parts = (part.partition("=") for part in text.split(";") if part.strip())
    try:
        return allowed({key.strip(): value.strip() for key, _, value in parts})
    except ValueError as error:
        raise Invalid(str(error)) from None


def read_resource(text: str) -> Mapping[str, Json]:
    """Memory of driver and executor: ``4g:4g`` as RFC-43 writes it, ``spark:4g,4g`` as Hudi's client does."""
    if not text:
        return {}
    if not _RESOURCE.fullmatch(text):
        raise Invalid(f"{text[:40]!a} is no resource: write 4g:4g (driver:executor) or spark:4g,4g")
    return {"resource": text}


def read_parallelism(value: int | str | None) -> Mapping[str, Json]:
    if value in (None, ""):
        return {}
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,7}", text) or not 1 <= int(text) <= MOST_PARALLEL:
        raise Invalid(f"{text[:40]!a} is no parallelism: a number from 1 to {MOST_PARALLEL}")
    return {"parallelism": text}
