# SPDX-License-Identifier: Apache-2.0
"""Chooses and reads lakehand.toml, and merges layers of settings."""

import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from lakehand.domain.errors import Invalid, NotFound

# The same parser under two names: Python has had its own since 3.11.
toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

NAME = "lakehand.toml"
FREE_TABLES = frozenset(
    {"plugins", "spark", "tokens", "queues", "properties", "catalogs", "receivers", "roles"}
)  # their keys are not normalised


_SECRET = re.compile(
    r"secret|password|passwd|token|credential|access.?key|callback.?key|receivers\..*\.url$", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChoice:
    """The file that is used, if any, and warnings about it or an ignored one."""

    file: Path | None = None
    warnings: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return f"the settings come from {self.file}" if self.file else "no lakehand.toml is used"


def choose_config(named: Path | None, home: Path) -> ConfigChoice:
    """The named file, else the one in home, else the one in the current folder.

    A file that was not named is used only if no other user can have written it.
    """
    chosen = named or (Path(os.environ["LAKEHAND_CONFIG"]) if os.environ.get("LAKEHAND_CONFIG") else None)
    if chosen is not None:
        if not chosen.is_file():
            raise NotFound(f"there is no configuration file {chosen}")
        return ConfigChoice(file=chosen.absolute())
    own, here = home.expanduser().absolute() / NAME, Path(NAME).absolute()
    if own.is_file():
        refuse_foreign(own)
        return ConfigChoice(file=own)
    if here.is_file():
        if reason := why_untrusted(here):
            warning = f"{here} is ignored, because {reason}; to use it anyway, name it with --config"
            return ConfigChoice(warnings=(warning,))
        return ConfigChoice(file=here)
    return ConfigChoice()


def refuse_foreign(file: Path) -> None:
    """Do not ignore the file in home: running without it, for example without its tokens, would be worse."""
    is_private = not file.parent.stat().st_mode & 0o077
    reason = why_untrusted(file)
    if reason and not (is_private and file.stat().st_uid in (0, os.geteuid())):
        raise Invalid(f"{file} is not used, because {reason}: make it this user's own, or name it with --config")


def why_untrusted(file: Path) -> str:
    found = file.stat()
    if found.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to it (chmod go-w {file})"
    return ""


def exposed_secrets(file: Path, values: Mapping[str, Any]) -> str:
    """A warning if other users can read a file with secrets."""
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH) and holds_secret(values):
        return f"{file} holds secrets, and other users may read it: chmod 600 {file}"
    return ""


def holds_secret(value: object, name: str = "") -> bool:
    if isinstance(value, Mapping):
        return any(holds_secret(inner, f"{name}.{key}") for key, inner in value.items())
    if isinstance(value, list):
        return any(holds_secret(inner, name) for inner in value)
    return bool(value) and bool(_SECRET.search(name) or _URL_PASSWORD.search(str(value)))


def read_config(file: Path) -> dict[str, Any]:
    try:
        return normalised(toml.loads(file.read_text(encoding="utf-8")))
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} is not valid TOML: {error}") from error
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from error


def normalised(values: Mapping[str, Any]) -> dict[str, Any]:
    """``lease-margin`` and ``lease_margin`` are the same setting."""
    return {
        name.replace("-", "_"): normalised(value) if isinstance(value, dict) and name not in FREE_TABLES else value
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
