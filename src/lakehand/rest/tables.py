# SPDX-License-Identifier: Apache-2.0
"""Routes of tables: add, list, show, change, pause, remove, explain, evaluate, health over time, and their answers."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field
from typing_extensions import Self

from lakehand.core.ports import TableFilter
from lakehand.core.services.explain import ActionExplanation, Explanation
from lakehand.core.services.health import TableHistory
from lakehand.domain.operations import Status
from lakehand.domain.tables import Table, TableChanges, TableId
from lakehand.inputs.fields import Name
from lakehand.inputs.tables import ChangedTable, HistoryQuery, NewTable, TableQuery
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import Answer, Document, Moment, PageAnswer, PathId, fields_of
from lakehand.rest.operations import EventAnswer, OperationAnswer
from lakehand.rest.table_shapes import HealthAnswer, RemovedTable, SettingsAnswer, TableAnswer

router = APIRouter(prefix="/api/v1/tables", tags=["tables"])


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


class ClearedAnswer(BaseModel):
    removed: list[int] = Field(description="The operations that were removed.")


class ActionAnswer(Answer):
    action: str
    wanted: bool
    now: str = Field(description="One sentence: what runs, what waits, or why nothing is done.")
    last_look: Moment | None = Field(description="When it was last evaluated. Without a change, the last reason holds.")
    last_decision: Moment | None = Field(
        description="When the table was last read for a decision: the numbers in `now` are of that time."
    )
    last_start: Moment | None
    next_look: Moment | None
    unfinished: list[OperationAnswer]
    last_finished: OperationAnswer | None

    @classmethod
    def of(cls, explained: ActionExplanation, table: Table) -> Self:
        last = explained.last_finished
        unfinished = [OperationAnswer.of(operation, table) for operation in explained.unfinished]
        finished = OperationAnswer.of(last, table) if last else None
        return cls(**fields_of(explained) | {"unfinished": unfinished, "last_finished": finished})


class ExplanationAnswer(Answer):
    """Why something runs on a table or not, and when it is evaluated next."""

    table: TableAnswer
    summary: str
    next_look: Moment | None
    actions: list[ActionAnswer]
    events: list[EventAnswer]

    @classmethod
    def of(cls, explanation: Explanation) -> Self:
        table = explanation.table
        actions = [ActionAnswer.of(action, table) for action in explanation.actions]
        events = [EventAnswer.of(event) for event in explanation.events]
        own = {"table": TableAnswer.of(table), "actions": actions, "events": events}
        return cls(**fields_of(explanation) | own)


@router.post("", status_code=201, responses={200: {"model": TableAnswer, "description": "Registered already."}})
def add_table(new: NewTable, context: Context, caller: Caller, response: Response) -> TableAnswer:
    """Register a table. If it is registered already, the answer is 200 and nothing changes."""
    table, is_new = context.services.requests.tables.add(caller, new.spec(context.intake.heartbeat_timeout))
    response.status_code = 201 if is_new else 200
    return TableAnswer.of(table)


@router.get("")
def list_tables(query: Annotated[TableQuery, Query()], context: Context, _caller: Caller) -> PageAnswer[TableAnswer]:
    """Registered tables that match every given filter."""
    page = context.services.tables.list(TableFilter(**query.filters()), limit=query.limit, cursor=query.cursor)
    return PageAnswer(items=[TableAnswer.of(table) for table in page.items], next=page.next)


@router.get("/find")
def find_table(name: Name, context: Context, _caller: Caller) -> TableAnswer:
    """One table by its id, its name, `db.name`, `catalog:db.name`, or its location."""
    return TableAnswer.of(context.services.tables.find(name))


@router.get("/{id}")
def show_table(id: PathId, context: Context, _caller: Caller) -> TableAnswer:
    return TableAnswer.of(context.services.tables.get(TableId(id)))


@router.patch("/{id}")
def change_table(id: PathId, changed: ChangedTable, context: Context, caller: Caller) -> TableAnswer:
    """Change the given fields."""
    table = context.services.tables.get(TableId(id))
    return TableAnswer.of(context.services.requests.tables.change(caller, table.id, changed.changes(table)))


@router.post("/{id}/pause")
def pause_table(id: PathId, context: Context, caller: Caller) -> TableAnswer:
    """Start no more operations for this table; running ones continue."""
    return TableAnswer.of(context.services.requests.tables.change(caller, TableId(id), TableChanges(paused=True)))


@router.post("/{id}/resume")
def resume_table(id: PathId, context: Context, caller: Caller) -> TableAnswer:
    return TableAnswer.of(context.services.requests.tables.change(caller, TableId(id), TableChanges(paused=False)))


@router.delete("/{id}")
def remove_table(id: PathId, context: Context, caller: Caller) -> RemovedTable:
    """Remove the table from the service. Its data is not touched, and its history is kept."""
    context.services.requests.tables.remove(caller, TableId(id))
    return RemovedTable(id=id)


@router.get("/{id}/explain")
def explain_table(id: PathId, context: Context, _caller: Caller) -> ExplanationAnswer:
    """Why something runs or not, and when the table is evaluated next."""
    return ExplanationAnswer.of(context.services.explainer.explain(TableId(id)))


@router.get("/{id}/health")
def show_health(
    id: PathId, query: Annotated[HistoryQuery, Query()], context: Context, _caller: Caller
) -> HistoryAnswer:
    """Its health over time, as stored at its inspections, and the operations that ended meanwhile."""
    return HistoryAnswer.of(context.services.health.history(TableId(id), query.since))


@router.get("/{id}/settings")
def show_settings(id: PathId, context: Context, _caller: Caller) -> SettingsAnswer:
    """The settings of its format that count for this table, and where each value comes from."""
    return SettingsAnswer.model_validate(
        {"items": context.services.settings_of(context.services.tables.get(TableId(id)))}
    )


@router.post("/{id}/look", status_code=202)
def evaluate_table(id: PathId, context: Context, caller: Caller) -> TableAnswer:
    """Evaluate the table now."""
    return TableAnswer.of(context.services.requests.tables.evaluate(caller, TableId(id)))


@router.post("/{id}/clear")
def clear_table(id: PathId, context: Context, caller: Caller) -> ClearedAnswer:
    """Remove every unfinished operation of the table; running ones are canceled."""
    return ClearedAnswer(removed=list(context.services.requests.tables.clear(caller, TableId(id))))
