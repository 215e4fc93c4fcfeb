# SPDX-License-Identifier: Apache-2.0
"""The route of the fleet: states of all tables, what needs a person, what was done, and the queues."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import Self

from lakehand.api.tables import TableName, table_name
from lakehand.core.services.fleet import FleetService
from lakehand.domain.fleet import FleetProblem, TableState
from lakehand.inputs.fleet import FleetQuery
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import Answer, Moment, SpanSeconds, fields_of

router = APIRouter(prefix="/api/v1/fleet", tags=["fleet"])


class TotalsAnswer(Answer):
    """Sums over all registered tables whose health is known."""

    tables: int = Field(description="All registered tables.")
    files: int
    small_files: int
    bytes: int
    small_bytes: int


class FleetProblemAnswer(Answer):
    """A table whose action failed for good, or that cannot be read."""

    table: TableName
    state: TableState = Field(description="failed or unreadable.")
    reason: str
    since: Moment | None
    action: str | None
    operation: int | None = Field(description="The one that failed; it can be retried.")

    @classmethod
    def of(cls, problem: FleetProblem) -> Self:
        return cls(**fields_of(problem) | {"table": table_name(problem.table)})


class ProblemsAnswer(Answer):
    items: list[FleetProblemAnswer] = Field(description="The newest first.")
    total: int


class DoneAnswer(Answer):
    since: Moment = Field(description="The beginning of the first whole hour that is counted.")
    operations: int = Field(description="All that ended.")
    succeeded: int
    failed: int
    success_rate: float | None = Field(description="Of those that succeeded or failed; null if there are none.")
    attempts: int
    files_removed: int
    bytes_rewritten: int
    mean_wait_seconds: SpanSeconds | None = Field(validation_alias="mean_wait", description="From due to submitted.")
    mean_run_seconds: SpanSeconds | None = Field(validation_alias="mean_run")


class QueueAnswer(Answer):
    queue: str
    waiting: int
    oldest: Moment | None = Field(description="Since when the oldest that may start is due.")
    running: int


class FleetAnswer(Answer):
    """All tables and operations in numbers."""

    states: dict[TableState, int] = Field(description="How many tables are in each state.")
    totals: TotalsAnswer
    needs_person: ProblemsAnswer
    done: DoneAnswer
    queues: list[QueueAnswer]


@router.get("")
def show_fleet(query: Annotated[FleetQuery, Query()], context: Context, _caller: Caller) -> FleetAnswer:
    """How many tables are healthy, what needs a person, and what was done."""
    return answer(context.fleet, timedelta(hours=query.hours), query.limit)


def answer(fleet: FleetService, span: timedelta, limit: int) -> FleetAnswer:
    summary, problems = fleet.summary(), fleet.needs_person(limit=limit)
    return FleetAnswer(
        states=dict(summary.states),
        totals=TotalsAnswer.model_validate(summary.totals),
        needs_person=ProblemsAnswer(items=[FleetProblemAnswer.of(one) for one in problems.items], total=problems.total),
        done=DoneAnswer.model_validate(fleet.done(span)),
        queues=[QueueAnswer.model_validate(one) for one in fleet.queues()],
    )
