# SPDX-License-Identifier: Apache-2.0
"""What follows when rows differ after an operation, or when nobody could compare them."""

from lakehand.domain.operations import Operation
from lakehand.domain.processes import Failure, Json, Remedy
from lakehand.domain.row_checks import RowReport, not_compared
from lakehand.spi.engines import EngineStatus

ROWS_DIFFER, ROWS_UNREAD = "rows-differ", "rows-unread"
PAUSING = frozenset({ROWS_DIFFER, ROWS_UNREAD})  # failures for good after which nothing more is done to the table


def rows_differ(operation: Operation, report: RowReport) -> Failure:
    message = (
        f"{operation.process.action} (operation {operation.id}) changed what readers see: {report.reason}. Compare the"
        f" two states, put the table right, and then: lakehand tables resume {operation.table}"
    )
    return Failure(reason=ROWS_DIFFER, message=message, remedy=Remedy.FATAL)


def unverified(operation: Operation, status: EngineStatus) -> Failure:
    """Unknown is not unequal: the next attempt only compares the rows."""
    why = status.message or "the engine gave no reason"
    message = (
        f"{operation.process.action} (operation {operation.id}) is done, and its rows could not be compared: {why}."
        f" If that lasts, the table is paused: lakehand tables resume {operation.table}"
    )
    return Failure(reason=ROWS_UNREAD, message=message)


def unreported(operation: Operation) -> dict[str, Json]:
    """The result of an operation that ended without a comparison, for a reason that no repeat changes."""
    stopped, silent = "stopped as asked before the rows were compared", "its job does not compare rows"
    return not_compared(operation.process, stopped if operation.cancel_requested else silent)
