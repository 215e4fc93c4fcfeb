# SPDX-License-Identifier: Apache-2.0
"""The .proto files have the fields of the API's requests and answers, with their types: gRPC converts by name."""

from dataclasses import fields
from datetime import datetime, timedelta
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from lakehand.api import access, alerts, catalogs, fleet, service, tables
from lakehand.api.fields import Answer, OneOf
from lakehand.rpc.generated import access_pb2, alerts_pb2, catalogs_pb2, fleet_pb2, service_pb2, table_pb2
from lakehand.rpc.messages import DURATION, RENAMED, STRUCT, TIMESTAMP, enum_prefix, fill, is_map

# Of each message: the shape, and the fields that only one of them has (the code of the call handles those).
SHAPES: list[tuple[type[Message], type, set[str]]] = [
    (alerts_pb2.Alert, alerts.AlertAnswer, set()),
    (alerts_pb2.AlertTest, alerts.TestAnswer, set()),
    (alerts_pb2.ListAlertsRequest, alerts.AlertQuery, {"all", "state"}),
    (alerts_pb2.SilenceAlertRequest, alerts.SilenceRequest, {"id"}),
    (alerts_pb2.TestAlertsRequest, alerts.TestRequest, set()),
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
    (table_pb2.TableName, tables.TableName, set()),
    (fleet_pb2.GetFleetRequest, fleet.FleetQuery, set()),
    (fleet_pb2.GetFleetResponse, fleet.FleetAnswer, {"states", "needs_person", "needs_person_total"}),
    (fleet_pb2.FleetTotals, fleet.TotalsAnswer, set()),
    (fleet_pb2.FleetProblem, fleet.FleetProblemAnswer, set()),
    (fleet_pb2.OperationsDone, fleet.DoneAnswer, set()),
    (fleet_pb2.QueueState, fleet.QueueAnswer, set()),
]
# Of these, a message says by an empty text that there is none.
EMPTY: dict[type, set[str]] = {service.InstanceAnswer: {"state"}, fleet.FleetProblemAnswer: {"action"}}
ANSWERS = [shape for _, shape, _ in SHAPES if issubclass(shape, Answer)]
MESSAGES = {TIMESTAMP: datetime, DURATION: float, STRUCT: dict[str, Any]}
MESSAGES |= {message.DESCRIPTOR.full_name: shape for message, shape, _ in SHAPES}
SCALARS: dict[int, type] = {
    FieldDescriptor.TYPE_STRING: str, FieldDescriptor.TYPE_BOOL: bool, FieldDescriptor.TYPE_DOUBLE: float,
    FieldDescriptor.TYPE_INT32: int, FieldDescriptor.TYPE_INT64: int,
}  # fmt: skip


@pytest.mark.parametrize(("message", "shape", "own"), SHAPES, ids=lambda one: getattr(one, "__name__", ""))
def test_a_message_has_the_fields_of_its_shape(message: type[Message], shape: Any, own: set[str]) -> None:
    shaped = {name: known(without_none(hint)) for name, hint in hints_of(shape).items() if name not in own}

    assert {name: type_of(field) for name, field in fields_of(message, shape).items() if name not in own} == shaped


@pytest.mark.parametrize("shape", ANSWERS)
def test_what_an_answer_may_lack_a_message_can_leave_out(shape: Any) -> None:
    message, own = next((one, own) for one, other, own in SHAPES if other is shape)
    may_lack = {name for name, hint in hints_of(shape).items() if NoneType in get_args(hint)} - own

    assert may_lack - EMPTY.get(shape, set()) <= {
        name for name, field in fields_of(message, shape).items() if field.has_presence
    }


def test_a_duration_is_filled_from_seconds_in_the_field_of_its_name_with_or_without_the_unit() -> None:
    pair = service.PairAnswer(
        format="hudi", action="clean", interval_seconds=1.5, on_new_snapshot=True, parallelism=0, dry_run=True,
        is_used=True,
    )  # fmt: skip

    assert fill(service_pb2.Strategy(), pair).interval.ToTimedelta() == timedelta(seconds=1.5)
    assert fill(service_pb2.BeginDrainRequest(), service.DrainRequest(timeout=2.0)).timeout.seconds == 2


def hints_of(shape: Any) -> dict[str, Any]:
    hints = get_type_hints(shape, include_extras=True)
    return {one.name: hints[one.name] for one in fields(shape) if one.init}


def fields_of(message: type[Message], shape: Any) -> dict[str, FieldDescriptor]:
    """By the names in the shape; that of a duration may say its unit."""
    every: Any = message.DESCRIPTOR.fields
    named = {RENAMED.get(field.name, field.name): field for field in every}
    return {f"{name}_seconds" if f"{name}_seconds" in hints_of(shape) else name: field for name, field in named.items()}


def type_of(field: FieldDescriptor) -> Any:
    if is_map(field):
        return dict[str, str]
    if field.enum_type:
        one: Any = words(field.enum_type)
    else:
        one = MESSAGES[field.message_type.full_name] if field.message_type else SCALARS[field.type]
    return list[one] if field.is_repeated else one


def words(enum: EnumDescriptor) -> frozenset[str]:
    every: Any = enum.values
    named = [value.name.removeprefix(enum_prefix(enum)) for value in every if value.number]
    return frozenset(name.lower().replace("_", "-") for name in named)


def known(hint: Any) -> Any:
    """The type without what only pydantic reads; the words of an enum as a set."""
    if get_origin(hint) is Annotated:
        inner, *more = get_args(hint)
        one_of = [extra.words for extra in more if isinstance(extra, OneOf)]
        return frozenset(map(str, one_of[0])) if one_of else inner
    return frozenset(get_args(hint)) if get_origin(hint) is Literal else hint


def without_none(hint: Any) -> Any:
    [inner] = [one for one in get_args(hint) if one is not NoneType] if NoneType in get_args(hint) else [hint]
    return inner
