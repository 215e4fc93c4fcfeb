# SPDX-License-Identifier: Apache-2.0
"""Pauses that every decision keeps: after a failure, after a run that changed nothing, while one is under way."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from lakehand.domain.actions import Action
from lakehand.domain.operations import Operation, Status
from lakehand.domain.processes import Skip, back_off
from lakehand.spi.runtimes import TableRuntime

CHANGED = "changed"  # in a verdict's numbers: False when the run found nothing to do
DRY_RUN = "dry_run"  # in a process's parameters: lists what it would do, and does nothing
COOL_DOWN = timedelta(hours=6)
FIRST_BACK_OFF = timedelta(minutes=30)
LONGEST_BACK_OFF = timedelta(days=1)


def pause(table: TableRuntime, action: Action, *, cool_down: timedelta = COOL_DOWN) -> Skip | None:
    """Why a new process of this action must wait; None when it need not.

    For actions whose work we plan ourselves. The caller asks this first and decides from the table only then.
    """
    known = [o for o in table.operations(action) if not o.process.parameters.get(DRY_RUN)]
    under_way = next((o for o in known if not o.status.is_final), None)
    if under_way is not None:
        return Skip(reason=f"operation {under_way.id} is {under_way.status}")
    ended = [o for o in known if o.status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)]
    if not ended:
        return None
    last = ended[0]
    if last.status is not Status.SUCCEEDED:
        return after_failures(ended, table.now)
    left = remaining(last, cool_down, table.now) if last.result.get(CHANGED) is False else None
    if left is None:
        return None
    return Skip(reason=f"operation {last.id} found nothing to change; next in {minutes(left)}", look_again=left)


def after_failures(ended: Sequence[Operation], now: datetime) -> Skip | None:
    failed = list(takewhile(lambda operation: operation.status is not Status.SUCCEEDED, ended))
    last = failed[0]
    left = remaining(last, back_off(len(failed), first=FIRST_BACK_OFF, longest=LONGEST_BACK_OFF), now)
    if left is None:
        return None
    why = f"operation {last.id} {last.status}: {last.reason}"
    again = f"decided anew in {minutes(left)}, or now: lakehand operations retry {last.id}"
    return Skip(reason=f"{why}; {again}", look_again=left)


def remaining(last: Operation, wait: timedelta, now: datetime) -> timedelta | None:
    """How much is left of a wait that began when an operation ended; None: it is over."""
    left = (last.finished_at or last.updated_at) + wait - now
    return left if left > timedelta() else None


def minutes(span: timedelta) -> str:
    count = max(round(span.total_seconds() / 60), 1)
    return f"{count} min" if count < 120 else f"{round(count / 60)} h"
