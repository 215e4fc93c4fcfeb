# SPDX-License-Identifier: Apache-2.0
"""Fills messages from our objects by the names of their fields, and reads requests into our models."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any, TypeVar

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from pydantic import TypeAdapter, ValidationError

from lakehand.api.events import event_answer
from lakehand.api.fields import attribute, describe_faults
from lakehand.api.operations import operation_answer
from lakehand.domain.errors import Invalid
from lakehand.domain.events import StoredEvent
from lakehand.domain.operations import Operation
from lakehand.domain.tables import Table
from lakehand.domain.texts import LARGEST_ID
from lakehand.rpc.generated import event_pb2, operation_pb2

M = TypeVar("M", bound=Message)
T = TypeVar("T")
TIMESTAMP, DURATION, STRUCT = (f"google.protobuf.{name}" for name in ("Timestamp", "Duration", "Struct"))
PROPERTIES = "lakehand.v1.Properties"
RENAMED = {"page_size": "limit", "page_token": "cursor"}


def fill(message: M, /, *sources: object, **more: object) -> M:
    """Set every field: from the keyword of its name, else from the last object that has it. None leaves it out."""
    fields: Any = message.DESCRIPTOR.fields
    for field in fields:
        value = more[field.name] if field.name in more else attribute(name_in(sources, field.name), sources)
        if value is not None:
            put(message, field, value)
    return message


def name_in(sources: Iterable[object], name: str) -> str:
    """As the field is called; a duration may have its unit in its name."""
    seconds = f"{name}_seconds"
    return seconds if any(hasattr(source, seconds) for source in sources) else name


def put(message: Message, field: FieldDescriptor, value: Any) -> None:
    if is_map(field):
        getattr(message, field.name).update({text(key): text(one) for key, one in value.items()})
    elif field.is_repeated and field.message_type:
        for one in value:
            put_message(getattr(message, field.name).add(), one)
    elif field.is_repeated:
        getattr(message, field.name).extend(map(scalar, value))
    elif field.message_type:
        getattr(message, field.name).SetInParent()
        put_message(getattr(message, field.name), value)
    elif field.enum_type:
        setattr(message, field.name, enum_number(field.enum_type, str(value)))
    else:
        setattr(message, field.name, scalar(value))


def put_message(target: Any, value: Any) -> None:
    if isinstance(value, Message):
        target.CopyFrom(value)
    elif isinstance(value, datetime):
        target.FromDatetime(value.astimezone(timezone.utc))
    elif isinstance(value, timedelta):
        target.FromTimedelta(value)
    elif isinstance(value, float):  # seconds
        target.FromTimedelta(timedelta(seconds=value))
    elif isinstance(value, Mapping):
        target.update(dict(value))
    else:
        fill(target, value)


def scalar(value: Any) -> Any:
    return text(value) if isinstance(value, str) else value


def text(value: object) -> str:
    """Text that may quote what cannot be encoded."""
    return str(value).encode("utf-8", "replace").decode()


def is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def enum_prefix(enum: EnumDescriptor) -> str:
    """As the style guide has it: TableState → TABLE_STATE_."""
    return enum.values[0].name.removesuffix("UNSPECIFIED")


def enum_number(enum: EnumDescriptor, word: str) -> int:
    return int(enum.values_by_name[enum_prefix(enum) + word.upper().replace("-", "_")].number)


def enum_word(field: FieldDescriptor, number: int) -> str:
    enum = field.enum_type
    assert enum is not None
    if number == 0 or number not in enum.values_by_number:
        raise Invalid(f"{field.name}: {number} is none of its values")
    return enum.values_by_number[number].name.removeprefix(enum_prefix(enum)).lower().replace("_", "-")


def read(shape: type[T], request: Message, *leave_out: str, **more: Any) -> T:
    """The request as the shape that all interfaces share; raises Invalid."""
    values = {name: value for name, value in given(request).items() if name not in leave_out}
    wanted: Any = shape
    try:
        checked: T = adapter_of(wanted).validate_python(values | more)
    except ValidationError as error:
        raise Invalid(describe_faults(error.errors())) from error
    return checked


@cache
def adapter_of(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def given(request: Message) -> dict[str, Any]:
    """The fields that a request has, as plain values."""
    return {RENAMED.get(field.name, field.name): plain(field, value) for field, value in request.ListFields()}


def plain(field: FieldDescriptor, value: Any) -> Any:
    if is_map(field):
        return dict(value)
    if field.is_repeated:
        return [plain_one(field, one) for one in value]
    return plain_one(field, value)


def plain_one(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type:
        return enum_word(field, value)
    if not field.message_type:
        return value
    kind = field.message_type.full_name
    if kind == PROPERTIES:
        return dict(value.entries)
    if kind == DURATION:
        return value.seconds + value.nanos / 1e9
    try:
        return value.ToDatetime(tzinfo=timezone.utc)
    except (ValueError, OverflowError):
        raise Invalid(f"{field.name}: not a time from the year 1 to 9999") from None


def id_of(request: Any) -> int:
    if not 1 <= request.id <= LARGEST_ID:
        raise Invalid("id: give a number from 1 on")
    return int(request.id)


def event_message(stored: StoredEvent) -> event_pb2.Event:
    return fill(event_pb2.Event(), event_answer(stored))


def operation_message(operation: Operation, table: Table) -> operation_pb2.Operation:
    return fill(operation_pb2.Operation(), operation_answer(operation, table))
