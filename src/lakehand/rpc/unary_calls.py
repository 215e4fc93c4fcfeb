# SPDX-License-Identifier: Apache-2.0
"""Tables: add, list, find, change, pause, remove, explain, health over time, evaluate, clear."""

from lakehand.api.tables import ChangedTable, FindQuery, HistoryQuery, NewTable, TableQuery, table_answer
from lakehand.domain.tables import Table, TableId
from lakehand.rpc.context import Call
from lakehand.rpc.generated import table_pb2
from lakehand.rpc.generated import tables_pb2 as pb
from lakehand.rpc.messages import fill, id_of, read


def add_table(call: Call, request: pb.AddTableRequest) -> pb.AddTableResponse:
    table, is_new = call.services.tables.add(call.caller, read(NewTable, request))
    return pb.AddTableResponse(table=table_message(table), is_new=is_new)


def list_tables(call: Call, request: pb.ListTablesRequest) -> pb.ListTablesResponse:
    page = call.services.tables.list(read(TableQuery, request))
    return pb.ListTablesResponse(tables=map(table_message, page.items), next_page_token=page.next or "")


def find_table(call: Call, request: pb.FindTableRequest) -> pb.FindTableResponse:
    return pb.FindTableResponse(table=table_message(call.services.tables.find(read(FindQuery, request).name)))


def get_table(call: Call, request: pb.GetTableRequest) -> pb.GetTableResponse:
    return pb.GetTableResponse(table=table_message(call.services.tables.get(TableId(id_of(request)))))


def change_table(call: Call, request: pb.ChangeTableRequest) -> pb.ChangeTableResponse:
    table, changed = TableId(id_of(request)), read(ChangedTable, request, "id")
    return pb.ChangeTableResponse(table=table_message(call.services.tables.change(call.caller, table, changed)))


def pause_table(call: Call, request: pb.PauseTableRequest) -> pb.PauseTableResponse:
    return pb.PauseTableResponse(table=table_message(call.services.tables.pause(call.caller, TableId(id_of(request)))))


def resume_table(call: Call, request: pb.ResumeTableRequest) -> pb.ResumeTableResponse:
    return pb.ResumeTableResponse(
        table=table_message(call.services.tables.resume(call.caller, TableId(id_of(request))))
    )


def remove_table(call: Call, request: pb.RemoveTableRequest) -> pb.RemoveTableResponse:
    call.services.tables.remove(call.caller, TableId(id_of(request)))
    return pb.RemoveTableResponse(id=request.id)


def explain_table(call: Call, request: pb.ExplainTableRequest) -> pb.ExplainTableResponse:
    return fill(pb.ExplainTableResponse(), call.services.explainer.explain(TableId(id_of(request))))


def get_table_health(call: Call, request: pb.GetTableHealthRequest) -> pb.GetTableHealthResponse:
    table, query = TableId(id_of(request)), read(HistoryQuery, request, "id")
    history = call.services.health.history(table, query)
    return fill(pb.GetTableHealthResponse(), history, table=table_message(history.table))


def list_table_settings(call: Call, request: pb.ListTableSettingsRequest) -> pb.ListTableSettingsResponse:
    table = call.services.tables.get(TableId(id_of(request)))
    return fill(pb.ListTableSettingsResponse(), settings=call.services.settings_of(table))


def evaluate_table(call: Call, request: pb.EvaluateTableRequest) -> pb.EvaluateTableResponse:
    table = call.services.tables.evaluate(call.caller, TableId(id_of(request)))
    return pb.EvaluateTableResponse(table=table_message(table))


def clear_table(call: Call, request: pb.ClearTableRequest) -> pb.ClearTableResponse:
    return pb.ClearTableResponse(removed=call.services.operations.clear(call.caller, TableId(id_of(request))))


def table_message(table: Table) -> table_pb2.Table:
    return fill(table_pb2.Table(), table_answer(table))
