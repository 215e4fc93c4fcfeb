# SPDX-License-Identifier: Apache-2.0
"""The rpcs that answer once, by their names: each reads its request, calls one verb of the services, and answers."""

from lakehand.api.access import AuditQuery, TokenRequest, audit_answer
from lakehand.api.alerts import AlertQuery, SilenceRequest, TestRequest, alert_answer
from lakehand.api.catalogs import SyncRequest
from lakehand.api.events import EventQuery
from lakehand.api.fields import values_of
from lakehand.api.fleet import FleetQuery
from lakehand.api.operations import ChangedOperation, LogQuery, OperationQuery, OperationRequest, detail_answer
from lakehand.api.service import DrainRequest
from lakehand.api.tables import ChangedTable, FindQuery, HistoryQuery, NewTable, TableQuery, table_answer
from lakehand.api.writers import PlanRemoval, PlansRequest, ReportedCommit, commits_answer, plans_answer
from lakehand.core.ports import PluginReport
from lakehand.domain.access import AuditEntry, TokenId
from lakehand.domain.alerts import Alert, AlertId
from lakehand.domain.operations import OperationId
from lakehand.domain.tables import Table, TableId
from lakehand.rpc.context import Call
from lakehand.rpc.generated import (
    access_pb2,
    alerts_pb2,
    catalogs_pb2,
    events_pb2,
    fleet_pb2,
    operation_pb2,
    operations_pb2,
    service_pb2,
    table_pb2,
    tables_pb2,
    writers_pb2,
)
from lakehand.rpc.messages import event_message, fill, given, id_of, operation_message, read


def add_table(call: Call, request: tables_pb2.AddTableRequest) -> tables_pb2.AddTableResponse:
    table, is_new = call.services.tables.add(call.caller, read(NewTable, request))
    return tables_pb2.AddTableResponse(table=table_message(table), is_new=is_new)


def list_tables(call: Call, request: tables_pb2.ListTablesRequest) -> tables_pb2.ListTablesResponse:
    page = call.services.tables.list(read(TableQuery, request))
    return tables_pb2.ListTablesResponse(tables=map(table_message, page.items), next_page_token=page.next or "")


def find_table(call: Call, request: tables_pb2.FindTableRequest) -> tables_pb2.FindTableResponse:
    return tables_pb2.FindTableResponse(table=table_message(call.services.tables.find(read(FindQuery, request).name)))


def get_table(call: Call, request: tables_pb2.GetTableRequest) -> tables_pb2.GetTableResponse:
    return tables_pb2.GetTableResponse(table=table_message(call.services.tables.get(TableId(id_of(request)))))


def change_table(call: Call, request: tables_pb2.ChangeTableRequest) -> tables_pb2.ChangeTableResponse:
    table, changed = TableId(id_of(request)), read(ChangedTable, request, "id")
    return tables_pb2.ChangeTableResponse(table=table_message(call.services.tables.change(call.caller, table, changed)))


def pause_table(call: Call, request: tables_pb2.PauseTableRequest) -> tables_pb2.PauseTableResponse:
    return tables_pb2.PauseTableResponse(
        table=table_message(call.services.tables.pause(call.caller, TableId(id_of(request))))
    )


def resume_table(call: Call, request: tables_pb2.ResumeTableRequest) -> tables_pb2.ResumeTableResponse:
    return tables_pb2.ResumeTableResponse(
        table=table_message(call.services.tables.resume(call.caller, TableId(id_of(request))))
    )


def remove_table(call: Call, request: tables_pb2.RemoveTableRequest) -> tables_pb2.RemoveTableResponse:
    call.services.tables.remove(call.caller, TableId(id_of(request)))
    return tables_pb2.RemoveTableResponse(id=request.id)


def explain_table(call: Call, request: tables_pb2.ExplainTableRequest) -> tables_pb2.ExplainTableResponse:
    return fill(tables_pb2.ExplainTableResponse(), call.services.explainer.explain(TableId(id_of(request))))


def get_table_health(call: Call, request: tables_pb2.GetTableHealthRequest) -> tables_pb2.GetTableHealthResponse:
    table, query = TableId(id_of(request)), read(HistoryQuery, request, "id")
    history = call.services.health.history(table, query)
    return fill(tables_pb2.GetTableHealthResponse(), history, table=table_message(history.table))


def list_table_settings(
    call: Call, request: tables_pb2.ListTableSettingsRequest
) -> tables_pb2.ListTableSettingsResponse:
    table = call.services.tables.get(TableId(id_of(request)))
    return fill(tables_pb2.ListTableSettingsResponse(), settings=call.services.settings_of(table))


def evaluate_table(call: Call, request: tables_pb2.EvaluateTableRequest) -> tables_pb2.EvaluateTableResponse:
    table = call.services.tables.evaluate(call.caller, TableId(id_of(request)))
    return tables_pb2.EvaluateTableResponse(table=table_message(table))


def clear_table(call: Call, request: tables_pb2.ClearTableRequest) -> tables_pb2.ClearTableResponse:
    return tables_pb2.ClearTableResponse(removed=call.services.operations.clear(call.caller, TableId(id_of(request))))


def table_message(table: Table) -> table_pb2.Table:
    return fill(table_pb2.Table(), table_answer(table))


def list_operations(call: Call, request: operations_pb2.ListOperationsRequest) -> operations_pb2.ListOperationsResponse:
    query = read(OperationQuery, request, "statuses", status=",".join(given(request).get("statuses", [])) or None)
    page = call.services.operations.list(query)
    operations = [operation_message(*pair) for pair in page.items]
    return operations_pb2.ListOperationsResponse(operations=operations, next_page_token=page.next or "")


def submit_operation(
    call: Call, request: operations_pb2.SubmitOperationRequest
) -> operations_pb2.SubmitOperationResponse:
    operation, table, is_new = call.services.operations.submit(call.caller, read(OperationRequest, request))
    return operations_pb2.SubmitOperationResponse(operation=operation_message(operation, table), is_new=is_new)


def get_operation(call: Call, request: operations_pb2.GetOperationRequest) -> operations_pb2.GetOperationResponse:
    found = call.services.operations.show(OperationId(id_of(request)))
    answer = detail_answer(found.operation, found.table, found.attempts, found.events)
    operation = operation_message(found.operation, found.table)
    detail = fill(operation_pb2.OperationDetail(), answer, operation=operation, attempts=answer.attempt_list)
    return operations_pb2.GetOperationResponse(detail=detail)


def change_operation(
    call: Call, request: operations_pb2.ChangeOperationRequest
) -> operations_pb2.ChangeOperationResponse:
    operation, changed = OperationId(id_of(request)), read(ChangedOperation, request, "id")
    pair = call.services.operations.change(call.caller, operation, changed)
    return operations_pb2.ChangeOperationResponse(operation=operation_message(*pair))


def cancel_operation(
    call: Call, request: operations_pb2.CancelOperationRequest
) -> operations_pb2.CancelOperationResponse:
    pair = call.services.operations.cancel(call.caller, OperationId(id_of(request)))
    return operations_pb2.CancelOperationResponse(operation=operation_message(*pair))


def retry_operation(call: Call, request: operations_pb2.RetryOperationRequest) -> operations_pb2.RetryOperationResponse:
    pair = call.services.operations.retry(call.caller, OperationId(id_of(request)))
    return operations_pb2.RetryOperationResponse(operation=operation_message(*pair))


def report_commits(call: Call, request: writers_pb2.ReportCommitsRequest) -> writers_pb2.ReportCommitsResponse:
    results = call.context.commits.report(call.caller, [read(ReportedCommit, one) for one in request.commits])
    return fill(writers_pb2.ReportCommitsResponse(), commits_answer(results))


def submit_plans(call: Call, request: writers_pb2.SubmitPlansRequest) -> writers_pb2.SubmitPlansResponse:
    plans = call.services.operations.submit_plans(call.caller, read(PlansRequest, request))
    return fill(writers_pb2.SubmitPlansResponse(), plans_answer(*plans))


def remove_plan(call: Call, request: writers_pb2.RemovePlanRequest) -> writers_pb2.RemovePlanResponse:
    pair = call.services.operations.remove_plan(call.caller, read(PlanRemoval, request))
    return writers_pb2.RemovePlanResponse(operation=operation_message(*pair))


def remove_operation(
    call: Call, request: operations_pb2.RemoveOperationRequest
) -> operations_pb2.RemoveOperationResponse:
    pair = call.services.operations.cancel(call.caller, OperationId(id_of(request)), delete=True)
    return operations_pb2.RemoveOperationResponse(operation=operation_message(*pair))


def read_logs(call: Call, request: operations_pb2.ReadLogsRequest) -> operations_pb2.ReadLogsResponse:
    logs = call.services.operations.logs(OperationId(id_of(request)), read(LogQuery, request, "id"))
    return fill(operations_pb2.ReadLogsResponse(), logs)


def list_catalogs(call: Call, _request: catalogs_pb2.ListCatalogsRequest) -> catalogs_pb2.ListCatalogsResponse:
    return fill(catalogs_pb2.ListCatalogsResponse(), catalogs=call.services.catalogs.list_all())


def sync_catalog(call: Call, request: catalogs_pb2.SyncCatalogRequest) -> catalogs_pb2.SyncCatalogResponse:
    name = read(FindQuery, request, "dry_run", "accept_empty").name
    report = call.services.catalogs.sync(call.caller, name, read(SyncRequest, request, "name"))
    return fill(catalogs_pb2.SyncCatalogResponse(), sync=report)


def list_alerts(call: Call, request: alerts_pb2.ListAlertsRequest) -> alerts_pb2.ListAlertsResponse:
    page = call.services.alerts.list(read(AlertQuery, request, "all", state="all" if request.all else "open"))
    return alerts_pb2.ListAlertsResponse(alerts=map(alert_message, page.items), next_page_token=page.next or "")


def test_alerts(call: Call, request: alerts_pb2.TestAlertsRequest) -> alerts_pb2.TestAlertsResponse:
    return fill(
        alerts_pb2.TestAlertsResponse(), tests=call.services.alerts.test(call.caller, read(TestRequest, request))
    )


def silence_alert(call: Call, request: alerts_pb2.SilenceAlertRequest) -> alerts_pb2.SilenceAlertResponse:
    alert, wanted = AlertId(id_of(request)), read(SilenceRequest, request, "id")
    return alerts_pb2.SilenceAlertResponse(
        alert=alert_message(call.services.alerts.silence(call.caller, alert, wanted))
    )


def alert_message(alert: Alert) -> alerts_pb2.Alert:
    return fill(alerts_pb2.Alert(), alert_answer(alert))


def list_events(call: Call, request: events_pb2.ListEventsRequest) -> events_pb2.ListEventsResponse:
    page = call.context.store.events.list(**values_of(read(EventQuery, request)))
    return events_pb2.ListEventsResponse(events=map(event_message, page.items), next_page_token=page.next or "")


def get_fleet(call: Call, request: fleet_pb2.GetFleetRequest) -> fleet_pb2.GetFleetResponse:
    found = call.services.fleet.show(read(FleetQuery, request))
    states = [fill(fleet_pb2.StateCount(), state=state, tables=tables) for state, tables in found.states.items()]
    return fill(
        fleet_pb2.GetFleetResponse(), found, states=states, needs_person=found.needs_person.items,
        needs_person_total=found.needs_person.total,
    )  # fmt: skip


def get_caller(call: Call, _request: access_pb2.GetCallerRequest) -> access_pb2.GetCallerResponse:
    return fill(access_pb2.GetCallerResponse(), caller=call.caller)


def list_tokens(call: Call, _request: access_pb2.ListTokensRequest) -> access_pb2.ListTokensResponse:
    return fill(access_pb2.ListTokensResponse(), tokens=call.services.access.list_tokens(call.caller))


def create_token(call: Call, request: access_pb2.CreateTokenRequest) -> access_pb2.CreateTokenResponse:
    made = call.services.access.create_token(call.caller, read(TokenRequest, request))
    return fill(access_pb2.CreateTokenResponse(), made, token=made)


def revoke_token(call: Call, request: access_pb2.RevokeTokenRequest) -> access_pb2.RevokeTokenResponse:
    revoked = call.services.access.revoke_token(call.caller, TokenId(id_of(request)))
    return fill(access_pb2.RevokeTokenResponse(), token=revoked)


def list_audit(call: Call, request: access_pb2.ListAuditRequest) -> access_pb2.ListAuditResponse:
    page = call.services.audit.list(call.caller, read(AuditQuery, request))
    return access_pb2.ListAuditResponse(entries=map(entry_message, page.items), next_page_token=page.next or "")


def entry_message(entry: AuditEntry) -> access_pb2.AuditEntry:
    unknown = {} if entry.answer else {"after": None}
    return fill(access_pb2.AuditEntry(), audit_answer(entry), **unknown)


def get_version(call: Call, _request: service_pb2.GetVersionRequest) -> service_pb2.GetVersionResponse:
    return fill(service_pb2.GetVersionResponse(), call.services.about)


def list_plugins(call: Call, _request: service_pb2.ListPluginsRequest) -> service_pb2.ListPluginsResponse:
    return service_pb2.ListPluginsResponse(plugins=map(plugin_message, call.services.plugins()))


def plugin_message(report: PluginReport) -> service_pb2.Plugin:
    pairs = [service_pb2.FormatActions(format=name, actions=actions) for name, actions in report.pairs.items()]
    return fill(service_pb2.Plugin(), report, pairs=pairs)


def list_instances(call: Call, _request: service_pb2.ListInstancesRequest) -> service_pb2.ListInstancesResponse:
    return fill(service_pb2.ListInstancesResponse(), instances=call.services.instances.list())


def get_drain(call: Call, _request: service_pb2.GetDrainRequest) -> service_pb2.GetDrainResponse:
    return fill(service_pb2.GetDrainResponse(), drain=call.services.drains.report())


def begin_drain(call: Call, request: service_pb2.BeginDrainRequest) -> service_pb2.BeginDrainResponse:
    return fill(
        service_pb2.BeginDrainResponse(), drain=call.services.drains.begin(call.caller, read(DrainRequest, request))
    )


def end_drain(call: Call, _request: service_pb2.EndDrainRequest) -> service_pb2.EndDrainResponse:
    return fill(service_pb2.EndDrainResponse(), drain=call.services.drains.end(call.caller))
