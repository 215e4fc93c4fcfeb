# SPDX-License-Identifier: Apache-2.0
"""Every rpc of the .proto files with the function that carries it out: one without a function is an error at import."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from lakehand.rpc import unary_calls, watches
from lakehand.rpc.generated import (
    access_pb2,
    alerts_pb2,
    catalogs_pb2,
    events_pb2,
    fleet_pb2,
    operations_pb2,
    service_pb2,
    tables_pb2,
    writers_pb2,
)

FILES: Sequence[FileDescriptor] = [
    tables_pb2.DESCRIPTOR,
    operations_pb2.DESCRIPTOR,
    writers_pb2.DESCRIPTOR,
    catalogs_pb2.DESCRIPTOR,
    alerts_pb2.DESCRIPTOR,
    events_pb2.DESCRIPTOR,
    fleet_pb2.DESCRIPTOR,
    access_pb2.DESCRIPTOR,
    service_pb2.DESCRIPTOR,
]
WITHOUT_TOKEN = frozenset({"/lakehand.v1.Service/GetVersion"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    path: str  # as it is called: /lakehand.v1.Tables/ListTables
    name: str  # as it is counted: Tables.ListTables
    function: Callable[..., Any]
    request: Any  # the class of its requests
    streams: bool
    needs_token: bool


def method_of(descriptor: MethodDescriptor) -> Method:
    service, module = descriptor.containing_service, watches if descriptor.server_streaming else unary_calls
    path = f"/{service.full_name}/{descriptor.name}"
    return Method(
        path=path,
        name=f"{service.name}.{descriptor.name}",
        function=getattr(module, re.sub(r"(?<!^)(?=[A-Z])", "_", descriptor.name).lower()),
        request=GetMessageClass(descriptor.input_type),
        streams=descriptor.server_streaming,
        needs_token=path not in WITHOUT_TOKEN,
    )


METHODS: Mapping[str, Method] = {
    method.path: method
    for file in FILES
    for service in file.services_by_name.values()
    for method in map(method_of, service.methods)
}
SERVICES = tuple(service.full_name for file in FILES for service in file.services_by_name.values())
