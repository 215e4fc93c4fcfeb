# SPDX-License-Identifier: Apache-2.0
"""The service itself: version, plugins, instances, draining."""

from lakehand.api.service import DrainRequest
from lakehand.core.ports import PluginReport
from lakehand.rpc.context import Call
from lakehand.rpc.generated import service_pb2 as pb
from lakehand.rpc.messages import fill, read


def get_version(call: Call, _request: pb.GetVersionRequest) -> pb.GetVersionResponse:
    return fill(pb.GetVersionResponse(), call.services.about)


def list_plugins(call: Call, _request: pb.ListPluginsRequest) -> pb.ListPluginsResponse:
    return pb.ListPluginsResponse(plugins=map(plugin_message, call.services.plugins()))


def plugin_message(report: PluginReport) -> pb.Plugin:
    pairs = [pb.FormatActions(format=name, actions=actions) for name, actions in report.pairs.items()]
    return fill(pb.Plugin(), report, pairs=pairs)


def list_instances(call: Call, _request: pb.ListInstancesRequest) -> pb.ListInstancesResponse:
    return fill(pb.ListInstancesResponse(), instances=call.services.instances.list())


def get_drain(call: Call, _request: pb.GetDrainRequest) -> pb.GetDrainResponse:
    return fill(pb.GetDrainResponse(), drain=call.services.drains.report())


def begin_drain(call: Call, request: pb.BeginDrainRequest) -> pb.BeginDrainResponse:
    return fill(pb.BeginDrainResponse(), drain=call.services.drains.begin(call.caller, read(DrainRequest, request)))


def end_drain(call: Call, _request: pb.EndDrainRequest) -> pb.EndDrainResponse:
    return fill(pb.EndDrainResponse(), drain=call.services.drains.end(call.caller))
