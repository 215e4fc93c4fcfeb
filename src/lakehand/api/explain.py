# SPDX-License-Identifier: Apache-2.0
"""The answer to why something runs on a table, or not."""

from dataclasses import dataclass, field

from lakehand.api.events import EventAnswer
from lakehand.api.fields import Answer, Moment, about
from lakehand.api.operations import OperationAnswer
from lakehand.api.tables import TableAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAnswer(Answer):
    action: str
    wanted: bool
    now: str = field(metadata=about("One sentence: what runs, what waits, or why nothing is done."))
    evaluated_at: Moment | None = field(
        metadata=about("When it was last evaluated. Without a change, the last reason holds.")
    )
    last_decision: Moment | None = field(
        metadata=about("When the table was last read for a decision: the numbers in `now` are of that time.")
    )
    last_start: Moment | None
    next_evaluation: Moment | None
    unfinished: list[OperationAnswer]  # those that run, and the oldest of those that wait
    last_finished: OperationAnswer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationAnswer(Answer):
    """Why something runs on a table or not, and when it is evaluated next."""

    table: TableAnswer
    summary: str
    next_evaluation: Moment | None
    actions: list[ActionAnswer]
    events: list[EventAnswer]
