# SPDX-License-Identifier: Apache-2.0
"""The .proto files have the fields of the API's requests and answers, with their types: gRPC converts by name."""

from dataclasses import fields
from datetime import datetime, timedelta
from enum import Enum
from types import GenericAlias, NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from lakehand.api import access, alerts, catalogs, events, fleet, operations, service, tables, writers
from lakehand.rpc.generated import (
    access_pb2,
    alerts_pb2,
    catalogs_pb2,
    event_pb2,
    events_pb2,
    fleet_pb2,
    operation_pb2,
    operations_pb2,
    service_pb2,
    table_pb2,
    tables_pb2,
    writers_pb2,
)
from lakehand.rpc.messages import DURATION, PROPERTIES, RENAMED, STRUCT, TIMESTAMP, enum_prefix, fill, is_map

# Of each message: the shape, and the fields that only one of them has (the code of the call handles those).
SHAPES: list[tuple[type[Message], type, set[str]]] = [
    (alerts_pb2.Alert, alerts.AlertAnswer, set()),
    (alerts_pb2.AlertTest, alerts.TestAnswer, set()),
    (alerts_pb2.ListAlertsRequest, alerts.AlertQuery, {"all", "state"}),
    (alerts_pb2.SilenceAlertRequest, alerts.SilenceRequest, {"id"}),
    (alerts_pb2.TestAlertsRequest, alerts.TestRequest, set()),
    (table_pb2.Table, tables.TableAnswer, set()),
    (table_pb2.HealthPoint, tables.HealthAnswer, set()),
    (table_pb2.TableSetting, tables.SettingAnswer, set()),
    (tables_pb2.AddTableRequest, tables.NewTable, set()),
    (tables_pb2.ChangeTableRequest, tables.ChangedTable, {"id"}),
    (tables_pb2.ListTablesRequest, tables.TableQuery, set()),
    (tables_pb2.FindTableRequest, tables.FindQuery, set()),
    (tables_pb2.GetTableHealthRequest, tables.HistoryQuery, {"id"}),
    (tables_pb2.GetTableHealthResponse, tables.HistoryAnswer, set()),
    (tables_pb2.ActionExplanation, operations.ActionAnswer, set()),
    (tables_pb2.ExplainTableResponse, operations.ExplanationAnswer, set()),
    (operation_pb2.OperationEnd, tables.OperationEndAnswer, set()),
    (table_pb2.TableName, tables.TableName, set()),
    (event_pb2.Event, events.EventAnswer, set()),
    (events_pb2.ListEventsRequest, events.EventQuery, set()),
    (events_pb2.WatchEventsRequest, events.EventQuery, {"limit", "cursor", "after_id", "position"}),
    (operation_pb2.Operation, operations.OperationAnswer, set()),
    (operation_pb2.Failure, operations.FailureAnswer, set()),
    (operation_pb2.Attempt, operations.AttemptAnswer, set()),
    (operation_pb2.OperationDetail, operations.OperationDetailAnswer, {"operation", "attempts", "attempt_list"}
     | {one.name for one in fields(operations.OperationAnswer)}),
    (operations_pb2.SubmitOperationRequest, operations.OperationRequest, set()),
    (operations_pb2.ChangeOperationRequest, operations.ChangedOperation, {"id"}),
    (operations_pb2.ListOperationsRequest, operations.OperationQuery, {"statuses", "status"}),
    (operations_pb2.WatchOperationsRequest, operations.OperationQuery,
     {"limit", "cursor", "id", "statuses", "status"}),
    (operations_pb2.ReadLogsRequest, operations.LogQuery, {"id"}),
    (operations_pb2.ReadLogsResponse, operations.LogsAnswer, set()),
    (writers_pb2.Commit, writers.ReportedCommit, {"version"}),
    (writers_pb2.CommitReason, writers.Reason, set()),
    (writers_pb2.ReportCommitsResponse, writers.CommitsAnswer, set()),
    (writers_pb2.SubmitPlansRequest, writers.PlansRequest, set()),
    (writers_pb2.SubmitPlansResponse, writers.PlansAnswer, set()),
    (writers_pb2.RemovePlanRequest, writers.PlanRemoval, set()),
    (service_pb2.GetVersionResponse, service.VersionAnswer, set()),
    (service_pb2.Strategy, service.PairAnswer, set()),
    (service_pb2.Plugin, service.PluginAnswer, {"pairs"}),
    (service_pb2.Instance, service.InstanceAnswer, set()),
    (service_pb2.Drain, service.DrainAnswer, set()),
    (service_pb2.BeginDrainRequest, service.DrainRequest, set()),
    (catalogs_pb2.Catalog, catalogs.CatalogAnswer, set()),
    (catalogs_pb2.CatalogSync, catalogs.SyncAnswer, set()),
    (catalogs_pb2.SyncCatalogRequest, catalogs.SyncRequest, {"name"}),
    (access_pb2.Caller, access.CallerAnswer, set()),
    (access_pb2.Token, access.TokenAnswer, set()),
    (access_pb2.CreateTokenResponse, access.NewTokenAnswer, {"token", *access.TokenAnswer.__dataclass_fields__}),
    (access_pb2.CreateTokenRequest, access.TokenRequest, set()),
    (access_pb2.ListAuditRequest, access.AuditQuery, set()),
    (access_pb2.AuditEntry, access.AuditEntryAnswer, set()),
    (fleet_pb2.GetFleetRequest, fleet.FleetQuery, set()),
    (fleet_pb2.GetFleetResponse, fleet.FleetAnswer, {"states", "needs_person", "needs_person_total"}),
    (fleet_pb2.FleetTotals, fleet.TotalsAnswer, set()),
    (fleet_pb2.FleetProblem, fleet.FleetProblemAnswer, set()),
    (fleet_pb2.OperationsDone, fleet.DoneAnswer, set()),
    (fleet_pb2.QueueState, fleet.QueueAnswer, set()),
]  # fmt: skip
# Of these, a message says by an empty text that there is none.
EMPTY: dict[type, set[str]] = {service.InstanceAnswer: {"state"}, fleet.FleetProblemAnswer: {"action"}}
MESSAGES: dict[str, Any] = {TIMESTAMP: datetime, DURATION: float, STRUCT: dict[str, Any], PROPERTIES: dict[str, str]}
MESSAGES |= {message.DESCRIPTOR.full_name: shape for message, shape, _ in reversed(SHAPES)}
SCALARS: dict[int, type] = {
    FieldDescriptor.TYPE_STRING: str, FieldDescriptor.TYPE_BOOL: bool, FieldDescriptor.TYPE_DOUBLE: float,
    FieldDescriptor.TYPE_INT32: int, FieldDescriptor.TYPE_INT64: int,
}  # fmt: skip


@pytest.mark.parametrize(("message", "shape", "own"), SHAPES, ids=lambda one: getattr(one, "__name__", ""))
def test_a_message_has_the_fields_of_its_shape(message: type[Message], shape: Any, own: set[str]) -> None:
    hints = get_type_hints(shape)
    shaped = {one.name: hints[one.name] for one in fields(shape) if one.init and one.name not in own}
    sent = fields_of(message, shape, own)

    assert {name: type_of(field) for name, field in sent.items()} == {
        name: sent_as(hint, sent.get(name)) for name, hint in shaped.items()
    }


@pytest.mark.parametrize("shape", [one for _, one, _ in SHAPES if one.__name__.endswith("Answer")])
def test_what_an_answer_may_lack_a_message_can_leave_out(shape: Any) -> None:
    message, own = next((one, own) for one, other, own in SHAPES if other is shape)
    may_lack = {name for name, hint in get_type_hints(shape).items() if NoneType in get_args(hint)}

    may_lack -= own | EMPTY.get(shape, set())
    assert may_lack <= {name for name, field in fields_of(message, shape, set()).items() if field.has_presence}


def test_a_duration_is_filled_from_seconds_in_the_field_of_its_name_with_or_without_the_unit() -> None:
    pair = service.PairAnswer(
        format="hudi", action="clean", interval_seconds=1.5, on_new_snapshot=True, parallelism=0, dry_run=True,
        is_used=True,
    )  # fmt: skip

    assert fill(service_pb2.Strategy(), pair).interval.ToTimedelta() == timedelta(seconds=1.5)
    assert fill(service_pb2.BeginDrainRequest(), service.DrainRequest(timeout=2.0)).timeout.seconds == 2


def fields_of(message: type[Message], shape: Any, own: set[str]) -> dict[str, FieldDescriptor]:
    """By the names of the shape, which have a unit."""
    every: Any = message.DESCRIPTOR.fields
    shaped = {one.name for one in fields(shape)}
    named = {RENAMED.get(field.name, field.name): field for field in every}
    named = {f"{name}_seconds" if f"{name}_seconds" in shaped else name: field for name, field in named.items()}
    return {name: field for name, field in named.items() if name not in own}


def type_of(field: FieldDescriptor) -> Any:
    if is_map(field):
        entry: Any = field.message_type
        return GenericAlias(dict, tuple(type_of(one) for one in entry.fields))
    one = type_of_one(field)
    return GenericAlias(list, (one,)) if field.is_repeated else one


def type_of_one(field: FieldDescriptor) -> Any:
    if field.enum_type:
        return Literal[words(field.enum_type)]
    return MESSAGES[field.message_type.full_name] if field.message_type else SCALARS[field.type]


def words(enum: EnumDescriptor) -> tuple[str, ...]:
    every: Any = enum.values
    named = [value.name.removeprefix(enum_prefix(enum)) for value in every if value.number]
    return tuple(name.lower().replace("_", "-") for name in named)


def sent_as(hint: Any, field: FieldDescriptor | None) -> Any:
    """How a message holds a value of this type: a word of a closed set as an enum, or as text."""
    [inner] = [one for one in get_args(hint) if one is not NoneType] if NoneType in get_args(hint) else [hint]
    if not (isinstance(inner, type) and get_origin(inner) is None and issubclass(inner, Enum)):
        return inner
    return Literal[tuple(one.value for one in inner)] if field is not None and field.enum_type else str
