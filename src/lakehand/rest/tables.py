# SPDX-License-Identifier: Apache-2.0
"""Routes of tables: add, list, show, change, pause, remove, explain, evaluate, health over time."""

from typing import Annotated

from fastapi import APIRouter, Response

from lakehand.api.fields import PageAnswer, answer
from lakehand.api.operations import ClearedAnswer, ExplanationAnswer
from lakehand.api.tables import (
    ChangedTable,
    FindQuery,
    HistoryAnswer,
    HistoryQuery,
    NewTable,
    OperationEndAnswer,
    RemovedTable,
    SettingsAnswer,
    TableAnswer,
    TableQuery,
    health_answer,
    table_answer,
)
from lakehand.domain.tables import TableId
from lakehand.rest.dependencies import Caller, Context, PathId, from_query
from lakehand.rest.errors import problem

router = APIRouter(prefix="/api/v1/tables", tags=["tables"])


@router.post("", status_code=201, responses={200: {"model": TableAnswer, "description": "Registered already."}})
def add_table(new: NewTable, context: Context, caller: Caller, response: Response) -> TableAnswer:
    """Register a table. If it is registered already, the answer is 200 and nothing changes."""
    table, is_new = context.services.tables.add(caller, new)
    response.status_code = 201 if is_new else 200
    return table_answer(table)


@router.get("")
def list_tables(
    query: Annotated[TableQuery, from_query(TableQuery)], context: Context, _caller: Caller
) -> PageAnswer[TableAnswer]:
    """Registered tables that match every given filter."""
    page = context.services.tables.list(query)
    return PageAnswer(items=[table_answer(table) for table in page.items], next=page.next)


@router.get("/find")
def find_table(query: Annotated[FindQuery, from_query(FindQuery)], context: Context, _caller: Caller) -> TableAnswer:
    """One table by its id, its name, `db.name`, `catalog:db.name`, or its location."""
    return table_answer(context.services.tables.find(query.name))


@router.get("/{id}")
def show_table(id: PathId, context: Context, _caller: Caller) -> TableAnswer:
    return table_answer(context.services.tables.get(TableId(id)))


@router.patch("/{id}")
def change_table(id: PathId, changed: ChangedTable, context: Context, caller: Caller) -> TableAnswer:
    """Change the given fields."""
    return table_answer(context.services.tables.change(caller, TableId(id), changed))


@router.post("/{id}/pause")
def pause_table(id: PathId, context: Context, caller: Caller) -> TableAnswer:
    """Start no more operations for this table; running ones continue."""
    return table_answer(context.services.tables.pause(caller, TableId(id)))


@router.post("/{id}/resume")
def resume_table(id: PathId, context: Context, caller: Caller) -> TableAnswer:
    return table_answer(context.services.tables.resume(caller, TableId(id)))


@router.delete("/{id}")
def remove_table(id: PathId, context: Context, caller: Caller) -> RemovedTable:
    """Remove the table from the service. Its data is not touched, and its history is kept."""
    context.services.tables.remove(caller, TableId(id))
    return RemovedTable(id=id)


@router.get("/{id}/explain")
def explain_table(id: PathId, context: Context, _caller: Caller) -> ExplanationAnswer:
    """Why something runs or not, and when the table is evaluated next."""
    return context.services.explainer.explain(TableId(id))


@router.get("/{id}/health")
def show_health(
    id: PathId, query: Annotated[HistoryQuery, from_query(HistoryQuery)], context: Context, _caller: Caller
) -> HistoryAnswer:
    """Its health over time, as stored at its inspections, and the operations that ended meanwhile."""
    history = context.services.health.history(TableId(id), query)
    ends = [answer(OperationEndAnswer, one) for one in history.operations]
    points = [health_answer(point) for point in history.points]
    return HistoryAnswer(table=table_answer(history.table), points=points, operations=ends)


@router.get("/{id}/settings")
def show_settings(id: PathId, context: Context, _caller: Caller) -> SettingsAnswer:
    """The settings of its format that count for this table, and where each value comes from."""
    return SettingsAnswer(items=list(context.services.settings_of(context.services.tables.get(TableId(id)))))


@router.post("/{id}/evaluate", status_code=202)
def evaluate_table(id: PathId, context: Context, caller: Caller) -> TableAnswer:
    """Evaluate the table now."""
    return table_answer(context.services.tables.evaluate(caller, TableId(id)))


@router.post("/{id}/look", include_in_schema=False)
def evaluate_by_its_old_name(id: PathId, _caller: Caller) -> Response:
    return problem(410, "gone", f"this is called evaluate now: POST /api/v1/tables/{id}/evaluate")


@router.post("/{id}/clear")
def clear_table(id: PathId, context: Context, caller: Caller) -> ClearedAnswer:
    """Remove every unfinished operation of the table; running ones are canceled."""
    return ClearedAnswer(removed=list(context.services.operations.clear(caller, TableId(id))))
