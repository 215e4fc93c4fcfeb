# SPDX-License-Identifier: Apache-2.0
"""Pauses that every decision keeps: after a failure, after a run that changed nothing, while one is under way."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from lakehand.domain.actions import Action
from lakehand.domain.operations import Operation, Status
from lakehand.domain.processes import Skip
from lakehand.domain.retries import back_off
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
    if ended[0].status is not Status.SUCCEEDED:
        return after_failures(ended, table.now)
    return after_nothing(ended[0], table.now, cool_down) if ended[0].result.get(CHANGED) is False else None


def after_failures(ended: Sequence[Operation], now: datetime) -> Skip | None:
    failed = 0
    for operation in ended:
        if operation.status is Status.SUCCEEDED:
            break
        failed += 1
    wait = back_off(failed, first=FIRST_BACK_OFF, longest=LONGEST_BACK_OFF)
    last = ended[0]
    left = (last.finished_at or last.updated_at) + wait - now
    if left <= timedelta():
        return None
    why = f"operation {last.id} {last.status}: {last.reason}"
    return Skip(
        reason=f"{why}; decided anew in {minutes(left)}, or now: lakehand operations retry {last.id}", look_again=left
    )


def after_nothing(last: Operation, now: datetime, cool_down: timedelta) -> Skip | None:
    left = (last.finished_at or last.updated_at) + cool_down - now
    if left <= timedelta():
        return None
    return Skip(reason=f"operation {last.id} found nothing to change; next in {minutes(left)}", look_again=left)


def minutes(span: timedelta) -> str:
    count = max(round(span.total_seconds() / 60), 1)
    return f"{count} min" if count < 120 else f"{round(count / 60)} h"
