# SPDX-License-Identifier: Apache-2.0
"""Options of a table's schema that place files: whatever lies outside of the table is refused."""

import re
from collections.abc import Iterator, Mapping

from lakehand.jobs.boundary import JobBoundary, OutsideTable
from lakehand.jobs.paths import canonical

PATH, BRANCH, MAIN = "path", "branch", "main"
# Paimon 0.9 does not know these, and would look for the table's files where they are not.
NEWER = ("data-file.path-directory", "data-file.external-paths", "global-index.external-path", "object-location")
FREE = ("fields.", "comment")  # values that are data, not settings
_WHOLE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_BETWEEN = re.compile(r"[,;\s]+")


def refuse_odd_options(boundary: JobBoundary, options: Mapping[str, str], where: str) -> None:
    for key, value in options.items():
        if why := why_odd(boundary, key, value):
            raise OutsideTable(
                f"{where} has the option {key}={value!r}, {why}: nothing is done to such a table. Remove the option"
            )


def why_odd(boundary: JobBoundary, key: str, value: str) -> str:
    if key == PATH and boundary.real_path(value) != canonical(boundary.real):
        return f"and the table is at {boundary.real}"
    if key == BRANCH and value != MAIN:
        return "which makes a branch the main line"
    if key.startswith(NEWER):
        return "which places files where Paimon 0.9 does not look for them"
    if not key.startswith(FREE) and any(not boundary.holds(path) for path in paths_in(value)):
        return "which leads out of the table"
    return ""


def paths_in(value: str) -> Iterator[str]:
    """Parts that look like paths: whole ones, and relative ones that climb."""
    for part in _BETWEEN.split(value):
        if _WHOLE.match(part) or ".." in part.split("/"):
            yield part
