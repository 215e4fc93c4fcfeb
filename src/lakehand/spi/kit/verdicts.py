# SPDX-License-Identifier: Apache-2.0
"""Verdicts, and their wording where it is the same for all formats."""

from collections.abc import Mapping

from lakehand.domain.processes import Finding, Json, TableProcess, Verdict
from lakehand.spi.health import BYTES_REWRITTEN, FILES_REMOVED
from lakehand.spi.pauses import CHANGED

SHOWN = 3  # names in a reason; the result has more


def done(reason: str, numbers: Mapping[str, Json] | None = None, *, changed: bool = True) -> Verdict:
    """``changed=False``: nothing was to be done, so that the action pauses for a while."""
    return Verdict(finding=Finding.DONE, reason=reason, numbers={CHANGED: changed, **(numbers or {})})


def not_done(reason: str, numbers: Mapping[str, Json] | None = None) -> Verdict:
    return Verdict(finding=Finding.NOT_DONE, reason=reason, numbers=numbers or {})


def gone(reason: str) -> Verdict:
    return Verdict(finding=Finding.GONE, reason=reason)


def work_numbers(*, files_removed: Json = None, bytes_rewritten: Json = None) -> dict[str, Json]:
    """The numbers that are added up over all operations, as far as they are known."""
    numbers = {FILES_REMOVED: files_removed, BYTES_REWRITTEN: bytes_rewritten}
    return {name: value for name, value in numbers.items() if isinstance(value, int) and not isinstance(value, bool)}


def dry_run_verdict(process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    count = result.get("would_delete_files")
    if isinstance(count, bool) or not isinstance(count, int):
        return not_done("the dry run did not come to its end")
    what = f"{count} files"
    if isinstance(rows := result.get("would_delete_rows"), int):
        newest = f", the newest of {result.get('newest')}" if rows else ""
        what = f"{rows} rows in {what}{newest}"
    reason = f"dry run: {process.action} would delete {what}; nothing was deleted{left_outside(result)}"
    return done(reason, changed=False)


def left_outside(result: Mapping[str, Json]) -> str:
    """Names files outside of the table that were not deleted, for the operator to check; empty when there are none."""
    count, names = result.get("left_outside"), result.get("left_outside_files")
    if not count or not isinstance(names, (list, tuple)):
        return ""
    shown = ", ".join(str(name) for name in names[:SHOWN])
    return f"; {count} files were left, for instance {shown}: {result.get('left_outside_why')}"
