# SPDX-License-Identifier: Apache-2.0
"""What commands need of the client before they send anything. Light: every start of the command imports it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

Document: TypeAlias = dict[str, Any]
Parameters: TypeAlias = Mapping[str, Any]

DEFAULT_URL = "http://127.0.0.1:9091"
FINAL = frozenset({"succeeded", "failed", "canceled", "dropped"})  # statuses of an operation that is over
GOOD = frozenset({"succeeded", "dropped"})  # nothing is left to do


def given(parameters: Parameters) -> Document:
    """Without those that are None."""
    return {key: value for key, value in parameters.items() if value is not None}


def absolute_location(text: str) -> str:
    """A path as one types it in a shell, made absolute; anything with a scheme stays as it is."""
    if urlsplit(text).scheme or text.startswith("/"):
        return text
    return str(Path(text).expanduser().absolute())
