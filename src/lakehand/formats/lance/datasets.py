# SPDX-License-Identifier: Apache-2.0
"""Opening tables with Lance's own library, which is imported only here and where a plan is asked for."""

import re
from collections.abc import Mapping
from typing import Any

STORAGE = "lance.storage."  # properties of the plugin with this prefix go to Lance's storage client
_ALIAS = re.compile(r"s3[an]://")


def open_dataset(location: str, version: int, options: Mapping[str, str]) -> Any:
    """A version of the table. Whatever fails is an OSError."""
    import lance  # costs 200 ms, and nobody who has no Lance table pays for it

    try:
        return lance.dataset(_ALIAS.sub("s3://", location), version=version, storage_options=dict(options) or None)
    except ValueError as error:
        raise OSError(f"{location} cannot be opened: {error}") from error


def storage_options(properties: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(STORAGE): value for key, value in properties.items() if key.startswith(STORAGE)}
