# SPDX-License-Identifier: Apache-2.0
"""Parameters of an operation that a request may set: instants, options by allow-list, resources."""

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Annotated

from pydantic import AfterValidator, Field

from lakehand.api.fields import property_key
from lakehand.core.intake.notifications import NotificationRules
from lakehand.domain.errors import Invalid
from lakehand.domain.processes import Instant, Json

_TEXT = re.compile(r"[A-Za-z0-9_.:,+-]+( [A-Za-z0-9_.:,+-]+)*")
_RESOURCE = re.compile(r"(?:[a-z]{1,16}:)?[0-9]{1,6}[kmgt]?[:,][0-9]{1,6}[kmgt]?", re.IGNORECASE)
MOST_PARALLEL = 1_000_000
LONGEST_VALUE = 200


def check_hudi_options(options: Mapping[str, str], rules: NotificationRules) -> Mapping[str, str]:
    """Hudi's options pass an allow-list, the same one as on the wire."""
    for key, value in options.items():
        if key not in rules.options:
            raise Invalid(f"{key[:80]!a} is not on the allow-list: {', '.join(sorted(rules.options))}")
        if not rules.is_value(value):
            raise Invalid(f"the value of {key} may hold letters, digits and ._:+- only, at most 64")
    return options


def check_options(options: Mapping[str, str], rules: NotificationRules) -> Mapping[str, str]:
    """The options of a request, of whatever format."""
    check_hudi_options({key: value for key, value in options.items() if key.lower().startswith("hoodie.")}, rules)
    return options


def harmless(options: Mapping[str, str]) -> Mapping[str, str]:
    """Options of any format: nothing that loads code or is a secret. Each format takes those that it knows."""
    for key, value in options.items():
        property_key(key)
        if len(value) > LONGEST_VALUE or not _TEXT.fullmatch(value):
            raise ValueError(f"the value of {key} may hold letters, digits, spaces and ._:,+- only, at most 200")
    return options


Options = Annotated[dict[str, str], Field(max_length=50), AfterValidator(harmless)]


def read_options(text: str, rules: NotificationRules) -> Mapping[str, str]:
    """RFC-43's ``extra_params``: ``key=value`` pairs separated by semicolons."""
    parts = (part.partition("=") for part in text.split(";") if part.strip())
    return check_hudi_options({key.strip(): value.strip() for key, _, value in parts}, rules)


def read_instant(text: str, rules: NotificationRules) -> Instant:
    found = rules.plausible_instants([text], datetime.now(timezone.utc))
    if not found:
        raise Invalid(f"{text[:40]!a} is not an instant: give a time of 14 or 17 digits that is not in the future")
    return found[0]


def read_resource(text: str) -> Mapping[str, Json]:
    """Memory of driver and executor: ``4g:4g`` as in RFC-43, ``spark:4g,4g`` as Hudi's client sends it."""
    if not text:
        return {}
    if not _RESOURCE.fullmatch(text):
        raise Invalid(f"{text[:40]!a} is not a resource setting: write 4g:4g (driver:executor) or spark:4g,4g")
    return {"resource": text}


def read_parallelism(value: int | str | None) -> Mapping[str, Json]:
    if value in (None, ""):
        return {}
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,7}", text) or not 1 <= int(text) <= MOST_PARALLEL:
        raise Invalid(f"{text[:40]!a} is not a parallelism: a number from 1 to {MOST_PARALLEL}")
    return {"parallelism": text}
