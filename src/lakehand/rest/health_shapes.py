# SPDX-License-Identifier: Apache-2.0
"""Answers about the health of a table over time."""

from pydantic import Field
from typing_extensions import Self

from lakehand.core.services.health import TableHistory
from lakehand.domain.operations import Status
from lakehand.rest.fields import Answer, Document, Moment
from lakehand.rest.table_shapes import HealthAnswer, TableAnswer


class OperationEndAnswer(Answer):
    id: int
    action: str
    status: Status
    finished_at: Moment
    result: Document = Field(description="The numbers of its result.", examples=[{"files_removed": 40}])


class HistoryAnswer(Answer):
    """The health of a table over time, oldest first: at most 368 points, the sparser the older."""

    table: TableAnswer
    points: list[HealthAnswer]
    operations: list[OperationEndAnswer] = Field(description="What ended in that time: the newest 500.")

    @classmethod
    def of(cls, history: TableHistory) -> Self:
        return cls.model_validate(
            {"table": TableAnswer.of(history.table), "points": history.points, "operations": history.operations}
        )
