# SPDX-License-Identifier: Apache-2.0
"""Tables: add, list, find, change, pause, remove, explain, health over time, evaluate, clear."""

from lakehand.core.ports import TableFilter
from lakehand.core.services.explain import ActionExplanation
from lakehand.domain.tables import Table, TableChanges, TableId
from lakehand.inputs.tables import ChangedTable, FindQuery, HistoryQuery, NewTable, TableQuery
from lakehand.rpc.context import Call
from lakehand.rpc.generated import table_pb2
from lakehand.rpc.generated import tables_pb2 as pb
from lakehand.rpc.messages import event_message, fill, id_of, operation_message, read, table_message


def add_table(call: Call, request: pb.AddTableRequest) -> pb.AddTableResponse:
    spec = read(NewTable, request).spec(call.context.heartbeat_timeout)
    table, is_new = call.services.requests.tables.add(call.caller, spec)
    return pb.AddTableResponse(table=table_message(table), is_new=is_new)


def list_tables(call: Call, request: pb.ListTablesRequest) -> pb.ListTablesResponse:
    query = read(TableQuery, request)
    page = call.services.tables.list(TableFilter(**query.filters()), limit=query.limit, cursor=query.cursor)
    return pb.ListTablesResponse(tables=map(table_message, page.items), next_page_token=page.next or "")


def find_table(call: Call, request: pb.FindTableRequest) -> pb.FindTableResponse:
    return pb.FindTableResponse(table=table_message(call.services.tables.find(read(FindQuery, request).name)))


def get_table(call: Call, request: pb.GetTableRequest) -> pb.GetTableResponse:
    return pb.GetTableResponse(table=table_message(call.services.tables.get(TableId(id_of(request)))))


def change_table(call: Call, request: pb.ChangeTableRequest) -> pb.ChangeTableResponse:
    table = call.services.tables.get(TableId(id_of(request)))
    changes = read(ChangedTable, request, "id").changes(table)
    changed = call.services.requests.tables.change(call.caller, table.id, changes)
    return pb.ChangeTableResponse(table=table_message(changed))


def pause_table(call: Call, request: pb.PauseTableRequest) -> pb.PauseTableResponse:
    return pb.PauseTableResponse(table=set_paused(call, id_of(request), is_paused=True))


def resume_table(call: Call, request: pb.ResumeTableRequest) -> pb.ResumeTableResponse:
    return pb.ResumeTableResponse(table=set_paused(call, id_of(request), is_paused=False))


def set_paused(call: Call, id: int, *, is_paused: bool) -> table_pb2.Table:
    changes = TableChanges(paused=is_paused)
    return table_message(call.services.requests.tables.change(call.caller, TableId(id), changes))


def remove_table(call: Call, request: pb.RemoveTableRequest) -> pb.RemoveTableResponse:
    call.services.requests.tables.remove(call.caller, TableId(id_of(request)))
    return pb.RemoveTableResponse(id=request.id)


def explain_table(call: Call, request: pb.ExplainTableRequest) -> pb.ExplainTableResponse:
    found = call.services.explainer.explain(TableId(id_of(request)))
    actions = [action_message(action, found.table) for action in found.actions]
    events = [event_message(event) for event in found.events]
    return fill(pb.ExplainTableResponse(), found, table=table_message(found.table), actions=actions, events=events)


def action_message(explained: ActionExplanation, table: Table) -> pb.ActionExplanation:
    last = explained.last_finished
    unfinished = [operation_message(operation, table) for operation in explained.unfinished]
    finished = operation_message(last, table) if last else None
    return fill(pb.ActionExplanation(), explained, unfinished=unfinished, last_finished=finished)


def get_table_health(call: Call, request: pb.GetTableHealthRequest) -> pb.GetTableHealthResponse:
    table, query = TableId(id_of(request)), read(HistoryQuery, request, "id")
    history = call.services.health.history(table, query.since)
    return fill(pb.GetTableHealthResponse(), history, table=table_message(history.table))


def list_table_settings(call: Call, request: pb.ListTableSettingsRequest) -> pb.ListTableSettingsResponse:
    table = call.services.tables.get(TableId(id_of(request)))
    return fill(pb.ListTableSettingsResponse(), settings=call.services.settings_of(table))


def evaluate_table(call: Call, request: pb.EvaluateTableRequest) -> pb.EvaluateTableResponse:
    table = call.services.requests.tables.evaluate(call.caller, TableId(id_of(request)))
    return pb.EvaluateTableResponse(table=table_message(table))


def clear_table(call: Call, request: pb.ClearTableRequest) -> pb.ClearTableResponse:
    return pb.ClearTableResponse(removed=call.services.requests.tables.clear(call.caller, TableId(id_of(request))))
