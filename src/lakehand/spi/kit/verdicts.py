# SPDX-License-Identifier: Apache-2.0
"""The verdict on a dry run, in one wording for all formats."""

from collections.abc import Mapping

from lakehand.domain.processes import Finding, Json, TableProcess, Verdict
from lakehand.spi.pauses import CHANGED

SHOWN = 3  # names in a reason; the result has more


def dry_run_verdict(process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    count = result.get("would_delete_files")
    if isinstance(count, bool) or not isinstance(count, int):
        return Verdict(finding=Finding.NOT_DONE, reason="the dry run did not come to its end")
    reason = f"dry run: {process.action} would delete {count} files; nothing was deleted{left_outside(result)}"
    return Verdict(finding=Finding.DONE, reason=reason, numbers={CHANGED: False})


def left_outside(result: Mapping[str, Json]) -> str:
    """Files that are not the table's, so that an operator can say whose they are; empty when there are none."""
    count, names = result.get("left_outside"), result.get("left_outside_files")
    if not count or not isinstance(names, (list, tuple)):
        return ""
    shown = ", ".join(str(name) for name in names[:SHOWN])
    return f"; {count} files were left, for instance {shown}: {result.get('left_outside_why')}"
