# SPDX-License-Identifier: Apache-2.0
"""The service itself: version, plugins, instances."""

from lakehand.core.loops.draining import DrainReport
from lakehand.core.ports import PluginReport
from lakehand.inputs.fleet import DrainRequest
from lakehand.rpc.context import Call
from lakehand.rpc.generated import service_pb2 as pb
from lakehand.rpc.messages import fill, read


def get_version(call: Call, _request: pb.GetVersionRequest) -> pb.GetVersionResponse:
    return fill(pb.GetVersionResponse(), call.context.about)


def list_plugins(call: Call, _request: pb.ListPluginsRequest) -> pb.ListPluginsResponse:
    return pb.ListPluginsResponse(plugins=[plugin_message(one) for one in call.context.plugins()])


def plugin_message(report: PluginReport) -> pb.Plugin:
    pairs = [pb.FormatActions(format=name, actions=actions) for name, actions in report.pairs.items()]
    return fill(pb.Plugin(), report, pairs=pairs)


def list_instances(call: Call, _request: pb.ListInstancesRequest) -> pb.ListInstancesResponse:
    return fill(pb.ListInstancesResponse(), instances=call.context.store.instances.list())


def get_drain(call: Call, _request: pb.GetDrainRequest) -> pb.GetDrainResponse:
    return pb.GetDrainResponse(drain=drain_message(call.context.requests.drain_service.report()))


def begin_drain(call: Call, request: pb.BeginDrainRequest) -> pb.BeginDrainResponse:
    report = call.context.requests.begin_drain(call.caller, read(DrainRequest, request).span)
    return pb.BeginDrainResponse(drain=drain_message(report))


def end_drain(call: Call, _request: pb.EndDrainRequest) -> pb.EndDrainResponse:
    return pb.EndDrainResponse(drain=drain_message(call.context.requests.end_drain(call.caller)))


def drain_message(report: DrainReport) -> pb.Drain:
    return fill(pb.Drain(), report)
