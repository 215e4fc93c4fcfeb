# SPDX-License-Identifier: Apache-2.0
"""Whether a table can be read: what its evaluations tell, and one line in the log when that changes."""

import logging
from collections.abc import Callable, Sequence

from lakehand.core.loops.evaluations import FAILED, FactoryEvaluation, unreadable_text
from lakehand.domain.errors import PluginBroken, TryLater
from lakehand.domain.schedules import Schedule
from lakehand.domain.tables import TableId

log = logging.getLogger(__name__)


def why_not_understood(
    part: FactoryEvaluation, error: Exception | None, schedules: Callable[[], Sequence[Schedule]]
) -> str | None:
    """Why the table's metadata cannot be understood; empty if it can be again, None if these evaluations do not tell.

    It cannot be if it could not be inspected (``error``), if an evaluation could not read a file, or if the evaluation
    of each of its actions has failed. ``schedules``: reads all of its schedules.
    """
    unread = error or next((one for one in part.errors.values() if isinstance(one, OSError)), None)
    first = unread or next(iter(part.errors.values()), None)
    if isinstance(first, TryLater) or (first is None and not part.whole.table.problem):
        return None
    if unread is not None:
        return unreadable_text(part.whole.table.location, unread)
    others = [s.last_reason.startswith(FAILED) for s in schedules() if s.action not in {*part.errors, *part.answers}]
    if part.answers:
        return None if part.errors or any(others) else ""
    if first is None or isinstance(first, PluginBroken) or not all(others):
        return None
    return unreadable_text(part.whole.table.location, first)


def log_readability(table: TableId, before: str | None, now: str) -> None:
    """One line when a table cannot be read any more, and one when it can be again."""
    if now and not before:
        log.warning("a table cannot be read", extra={"table": table, "reason": now})
    elif before and not now:
        log.info("a table can be read again", extra={"table": table})
