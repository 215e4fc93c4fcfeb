# SPDX-License-Identifier: Apache-2.0
"""What becomes of commit events: the reasons, and the stored event of those that were refused."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from lakehand.domain.commits import CommitEvent, CommitResult, Outcome
from lakehand.domain.events import Event
from lakehand.domain.notifications import RefusedNotification

SHOWN = 250  # characters of a location or name that are shown
NOT_A_COMMIT = "the object is no commit of a table"
REPEATED = "the same event came before"
SYNCED = "the table is not known yet: its catalog is read now"
UNKNOWN = "the table is not registered: lakehand tables add LOCATION, or follow its catalog"
AMBIGUOUS = "several tables have this name: name the catalog, or the location"
OUTSIDE = "the location may not be served"
NAMELESS = "the event names no table: give a location, or a catalog with a table"
FORMATLESS = "the event may register the table, but names no format that is known here, or no action of that format"


def refusal_events(refusals: Sequence[CommitResult]) -> Sequence[RefusedNotification]:
    """A burst is one row per reason, with a count."""
    counts = Counter(one.reason for one in refusals)
    last = {one.reason: one.example for one in refusals}
    return [RefusedNotification(reason, refusal_event(reason, last[reason], n)) for reason, n in counts.items()]


def refusal_event(reason: str, example: str, times: int) -> Event:
    event = Event.counted("commits.refused", f"commit events were refused: {reason}")
    return replace(event, detail={"last": example}, times=times)


def ignored(reason: str, event: CommitEvent) -> CommitResult:
    return CommitResult(outcome=Outcome.IGNORED, reason=reason, example=name_of(event))


def waiting(event: CommitEvent) -> CommitResult:
    return CommitResult(outcome=Outcome.WAITING, reason=SYNCED, example=name_of(event))


def refused(reason: str, event: CommitEvent) -> CommitResult:
    return CommitResult(outcome=Outcome.REFUSED, reason=reason, example=name_of(event))


def name_of(event: CommitEvent) -> str:
    names = ".".join(part for part in (event.db_name, event.table_name) if part)
    return (event.object or event.location or (f"{event.catalog}:{names}" if event.catalog else names))[:SHOWN]
