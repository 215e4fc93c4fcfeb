# SPDX-License-Identifier: Apache-2.0
"""Finds and reads lakehand.toml, and lays layers of settings over each other."""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from lakehand.domain.errors import Invalid, NotFound

# The same parser under two names: Python has had its own since 3.11.
toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

NAME = "lakehand.toml"
FREE_TABLES = frozenset(
    {"plugins", "spark", "tokens", "queues", "properties", "catalogs"}
)  # their keys are not ours to spell


def find_config(named: Path | None, home: Path) -> Path | None:
    """The file that was named, or else the one in home, or else the one here."""
    chosen = named or (Path(os.environ["LAKEHAND_CONFIG"]) if os.environ.get("LAKEHAND_CONFIG") else None)
    if chosen is not None:
        if not chosen.is_file():
            raise NotFound(f"there is no configuration file {chosen}")
        return chosen
    return next((file for file in (home.expanduser() / NAME, Path(NAME)) if file.is_file()), None)


def read_config(file: Path) -> dict[str, Any]:
    try:
        return spelled(toml.loads(file.read_text(encoding="utf-8")))
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} is no TOML: {error}") from error


def spelled(values: Mapping[str, Any]) -> dict[str, Any]:
    """``lease-margin`` and ``lease_margin`` are one setting."""
    return {
        name.replace("-", "_"): spelled(value) if isinstance(value, dict) and name not in FREE_TABLES else value
        for name, value in values.items()
    }


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers win; tables are merged, everything else is replaced."""
    result: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            known = result.get(name)
            is_table = isinstance(known, Mapping) and isinstance(value, Mapping)
            result[name] = merged(known or {}, value) if is_table else value
    return result
