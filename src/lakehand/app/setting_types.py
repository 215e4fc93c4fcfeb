# SPDX-License-Identifier: Apache-2.0
"""Types of the values in settings: durations, lists of words, texts."""

import json
import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def read_duration(value: object) -> object:
    """Seconds, or a number with s, m, h or d."""
    if isinstance(value, str):
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)", value.strip())
        if found is None:
            raise ValueError(f"{value!r} is not a duration: use a number of seconds, or 90s, 10m, 2h, 1d")
        return timedelta(seconds=float(found[1]) * UNITS[found[2]])
    return value


def read_list(value: object) -> object:
    """A list, a JSON list, or comma-separated words."""
    if isinstance(value, str):
        return (
            json.loads(value) if value.strip().startswith("[") else [v.strip() for v in value.split(",") if v.strip()]
        )
    return value


def read_text(value: object) -> object:
    """Accept ``threads = 4`` for ``threads = "4"``."""
    return str(value).lower() if isinstance(value, (bool, int, float)) else value


Duration = Annotated[timedelta, BeforeValidator(read_duration), Field(gt=timedelta(0), le=timedelta(days=36500))]
Words = Annotated[list[str], NoDecode, BeforeValidator(read_list)]
Text = Annotated[str, BeforeValidator(read_text)]
Texts = dict[str, Text]


def setting(default: Any, meaning: str, **bounds: Any) -> Any:
    return Field(default=default, description=meaning, **bounds)
