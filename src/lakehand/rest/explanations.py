# SPDX-License-Identifier: Apache-2.0
"""Answers that explain a table."""

from pydantic import BaseModel, Field

from lakehand.core.explain import ActionExplanation, Explanation
from lakehand.domain.tables import Table
from lakehand.rest.fields import Moment
from lakehand.rest.operation_shapes import EventAnswer, OperationAnswer
from lakehand.rest.table_shapes import TableAnswer


class ActionAnswer(BaseModel):
    action: str
    wanted: bool
    now: str = Field(description="One sentence: what runs, what waits, or why nothing is done.")
    last_look: Moment | None
    last_start: Moment | None
    next_look: Moment | None
    unfinished: list[OperationAnswer]
    last_finished: OperationAnswer | None

    @classmethod
    def of(cls, explained: ActionExplanation, table: Table) -> "ActionAnswer":
        last = explained.last_finished
        return cls(
            action=explained.action,
            wanted=explained.wanted,
            now=explained.now,
            last_look=explained.last_look,
            last_start=explained.last_start,
            next_look=explained.next_look,
            unfinished=[OperationAnswer.of(operation, table) for operation in explained.unfinished],
            last_finished=OperationAnswer.of(last, table) if last else None,
        )


class ExplanationAnswer(BaseModel):
    table: TableAnswer
    summary: str
    next_look: Moment | None
    actions: list[ActionAnswer]
    events: list[EventAnswer]

    @classmethod
    def of(cls, explanation: Explanation) -> "ExplanationAnswer":
        table = explanation.table
        return cls(
            table=TableAnswer.of(table),
            summary=explanation.summary,
            next_look=explanation.next_look,
            actions=[ActionAnswer.of(action, table) for action in explanation.actions],
            events=[EventAnswer.of(event) for event in explanation.events],
        )
