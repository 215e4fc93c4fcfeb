# SPDX-License-Identifier: Apache-2.0
"""Paths as jobs compare them: one spelling for each storage, and never one bucket for another."""

import re

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
ALIASES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}


def canonical(location: str) -> str:
    """``/a/b`` on this machine; elsewhere ``scheme://authority/a/b`` with one spelling for each scheme."""
    match = _SCHEME.fullmatch(location)
    if match is None:
        return slashes(location)
    scheme, rest = match[1].lower(), match[2]
    authority, path = "", rest
    if rest.startswith("//") and not rest.startswith("///"):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    if scheme == "file":
        return slashes(path)
    return f"{ALIASES.get(scheme, scheme)}://{authority}{slashes(path)}"


def has_scheme(location: str) -> bool:
    return _SCHEME.fullmatch(location) is not None


def path_part(location: str) -> str:
    """The path of a location within its store, without a slash at its end."""
    whole = canonical(location)
    return (whole if whole.startswith("/") else "/" + whole.split("://", 1)[1].partition("/")[2]).rstrip("/")


def slashes(path: str) -> str:
    return re.sub("/+", "/", path).rstrip("/") or ("/" if path else "")


def is_below(path: str, prefix: str) -> bool:
    path, prefix = canonical(path), canonical(prefix).removesuffix("/")  # one: hdfs:/// is not all of hdfs
    return path == prefix or path.startswith(prefix + "/")
